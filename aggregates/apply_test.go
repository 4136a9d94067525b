package aggregates

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// unfolded are the nouns whose events no aggregate folds.
var unfolded = []string{"audit", "command", "signing_key"}

// Each aggregate has a case for every event of its nouns, even those that change nothing,
// so that none is forgotten.
func TestApplyNamesEveryEvent(t *testing.T) {
	named, folders := applied(t), foldersOfNouns(t)
	for _, kind := range events.Kinds() {
		t.Run(kind, func(t *testing.T) {
			noun, name := events.NounOf(kind).Name, typeName(t, kind)
			of := folders[noun]
			require.Equal(t, slices.Contains(unfolded, noun), of == "", "no aggregate has a case for events.%s, and unfolded has no %s", name, noun)
			require.True(t, of == "" || named[of][name], "%s.Apply has no case for events.%s", of, name)
		})
	}
}

// foldersOfNouns returns the aggregate that folds the events of each noun.
func foldersOfNouns(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{}
	for of, names := range applied(t) {
		for _, kind := range events.Kinds() {
			if noun := events.NounOf(kind).Name; names[typeName(t, kind)] {
				require.Contains(t, []string{"", of}, folders[noun], "the aggregates that fold events of %s", noun)
				folders[noun] = of
			}
		}
	}
	return folders
}

func typeName(t *testing.T, kind string) string {
	t.Helper()
	e, err := events.Decode(kind, events.Schema(kind), []byte(`{}`))
	require.NoError(t, err)
	return reflect.TypeOf(e).Name()
}

// applied returns the types of events that are cases in each aggregate's methods whose
// names begin with apply.
func applied(t *testing.T) map[string]map[string]bool {
	t.Helper()
	named := map[string]map[string]bool{}
	sources, err := filepath.Glob("[a-z]*[a-z].go")
	require.NoError(t, err)
	farm, err := filepath.Glob("farm/[a-z]*[a-z].go")
	require.NoError(t, err)
	for _, source := range append(sources, farm...) {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !strings.HasPrefix(strings.ToLower(f.Name.Name), "apply") || strings.HasSuffix(source, "_test.go") {
				continue
			}
			of := f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
			if named[of] == nil {
				named[of] = map[string]bool{}
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				for i := 0; ok && i < len(c.List); i++ {
					if kind, ok := c.List[i].(*ast.SelectorExpr); ok {
						named[of][kind.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	return named
}
