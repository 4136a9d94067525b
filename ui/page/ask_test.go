package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both buttons of each confirmation of the app say what happens: one names what is done, such as "Cancel run #411", the
// other what stays, such as "Keep it running".
func TestConfirmationsNameWhatHappens(t *testing.T) {
	t.Parallel()
	asked := 0
	root := os.DirFS("..")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join("..", name), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if q, ok := n.(*ast.CompositeLit); ok && isQuestion(q.Type) && len(q.Elts) > 0 {
				asked++
				requireWords(t, set.Position(q.Pos()).String(), q)
			}
			return true
		})
		return nil
	}))
	require.Greater(t, asked, 15)
}

func isQuestion(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Question"
	case *ast.Ident:
		return e.Name == "Question"
	}
	return false
}

// requireWords checks the literal beginnings of a question's texts.
func requireWords(t *testing.T, at string, q *ast.CompositeLit) {
	t.Helper()
	begins := map[string]string{}
	for _, e := range q.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		require.True(t, ok, "%s: fields have their names", at)
		begins[pair.Key.(*ast.Ident).Name] = beginning(pair.Value)
	}
	for _, field := range []string{"Title", "Text", "Yes", "No"} {
		require.Contains(t, begins, field, "%s: %s is missing", at, field)
	}
	yes, no := begins["Yes"], begins["No"]
	if yes != computed {
		verb, _, ok := strings.Cut(yes, " ")
		vague := []string{"Cancel", "Continue", "OK", "Yes", "Proceed", "Apply", "Submit"}
		require.True(t, ok && (verb == "Cancel" || !slices.Contains(vague, verb)), "%s: %q does not name what is done", at, yes)
	}
	if no != computed {
		verb, _, _ := strings.Cut(no, " ")
		require.Contains(t, []string{"Keep", "Not", "Stay", "Leave"}, verb, "%s: %q does not name what stays", at, no)
	}
}

// computed stands for a text that a function returns.
const computed = "\x00"

// beginning returns the literal at the beginning of a text, or computed.
func beginning(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return beginning(e.X)
	case *ast.BasicLit:
		return strings.Trim(e.Value, `"`)
	}
	return computed
}
