package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// An event that no noun lists could be appended and never be read.
func TestEveryEventIsInTheCatalogue(t *testing.T) {
	known := map[string]bool{"e.Name": true} // of Undecoded
	for _, kind := range events.Kinds() {
		known[strconv.Quote(kind)] = true
	}
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := 0
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "Kind" || f.Recv == nil {
				continue
			}
			kind, ok := f.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.BasicLit)
			if !ok { // Undecoded returns a field as its kind
				continue
			}
			found++
			require.True(t, known[kind.Value], "%s: no noun lists the kind %s", source, kind.Value)
		}
	}
	require.Equal(t, len(events.Kinds()), found)
}

func TestEveryKindHasAnAudience(t *testing.T) {
	for _, kind := range events.Kinds() {
		noun, _, _ := strings.Cut(kind, ".")
		require.Equal(t, noun, events.NounOf(kind).Name)
		require.NotEqual(t, events.Nobody, events.NounOf(kind).Audience, "%s: its noun is not in the catalogue, or says of no audience", kind)
	}
	require.Equal(t, events.Noun{Name: "moon"}, events.NounOf("moon.landed"), "of a newer build")
}

// The audit log shows each event under people or under work, which the noun's lists decide.
func TestEveryKindHasOneCategory(t *testing.T) {
	found := map[string]int{}
	for _, c := range events.Categories {
		for _, action := range c.Actions() {
			for _, kind := range events.Kinds() {
				noun, all := strings.CutSuffix(action, "*")
				if kind == action || all && strings.HasPrefix(kind, noun) {
					found[kind]++
				}
			}
		}
	}
	for _, kind := range events.Kinds() {
		require.Equal(t, 1, found[kind], kind)
	}
	require.Contains(t, events.People.Actions(), "member.*")
	require.Contains(t, events.People.Actions(), "decision.answered")
	require.NotContains(t, events.People.Actions(), "run.cost_recorded")
}
