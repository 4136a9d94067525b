package aggregates

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// streams says which aggregate folds the events of a noun; "" means none.
var streams = map[string]string{
	"workspace": "Workspace", "member": "Workspace", "invitation": "Workspace",
	"service_account": "ServiceAccount",
	"user":            "User",
	"run":             "Run", "decision": "Run",
	"runner": "Runner", "enrollment": "Enrollment", "authority": "Authority",
	"farm_secret": "FarmSecrets",
	"job":         "Job",
	"audit":       "", "command": "", "signing_key": "",
}

// Each aggregate has a case for every event of its stream, even those that change nothing,
// so that none is forgotten.
func TestApplyNamesEveryEvent(t *testing.T) {
	named := applied(t)
	for _, kind := range events.Kinds() {
		t.Run(kind, func(t *testing.T) {
			e, err := events.Decode(kind, events.Schema(kind), []byte(`{}`))
			require.NoError(t, err)
			noun := events.NounOf(kind).Name
			require.Contains(t, streams, noun, "whose stream are the events of %s in?", noun)
			if of := streams[noun]; of != "" {
				name := reflect.TypeOf(e).Name()
				require.True(t, named[of][name], "%s.Apply has no case for events.%s", of, name)
			}
		})
	}
}

// applied returns the types of events that are cases in each aggregate's methods whose
// names begin with apply.
func applied(t *testing.T) map[string]map[string]bool {
	t.Helper()
	named := map[string]map[string]bool{}
	sources, err := filepath.Glob("[a-z]*[a-z].go")
	require.NoError(t, err)
	for _, source := range sources {
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
