package projections

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/auditlog"
	"svc/projections/fold"
	"svc/test/pgtest"
)

// Missing kinds would leave events out; unneeded ones would be decoded in vain.
func TestViewsFoldExactlyTheirKinds(t *testing.T) {
	files, err := filepath.Glob("../events/testdata/*.json")
	require.NoError(t, err)
	taken := map[string]map[string]bool{}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		kind := parts[0] + "." + parts[1]
		e, err := events.Decode(kind, events.Schema(kind), data)
		require.NoError(t, err)
		for _, v := range All() {
			b := &pgx.Batch{}
			v.Load(b, v.Name(), []events.Record{{Event: e}})
			if b.Len() > 0 {
				if taken[v.Name()] == nil {
					taken[v.Name()] = map[string]bool{}
				}
				if slices.Contains(kindsOf(v), kind) {
					taken[v.Name()][kind] = true
				} else {
					taken[v.Name()][parts[0]] = true
				}
			}
		}
	}
	delete(taken, auditlog.View.Name())
	want := map[string]map[string]bool{}
	for _, v := range All() {
		if v == fold.View(auditlog.View) {
			continue
		}
		require.NotEmpty(t, kindsOf(v), "%s has no nouns: nothing is decoded for it", v.Name())
		want[v.Name()] = map[string]bool{}
		for _, noun := range kindsOf(v) {
			want[v.Name()][noun] = true
		}
	}
	require.Equal(t, want, taken)
}

// The row type of each view matches its table in the migrations.
func TestEveryRowTypeMatchesItsTable(t *testing.T) {
	db := pgtest.New(t)
	files, err := filepath.Glob("../events/testdata/*.json")
	require.NoError(t, err)
	read := map[string]bool{}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		kind := parts[0] + "." + parts[1]
		e, err := events.Decode(kind, events.Schema(kind), data)
		require.NoError(t, err)
		for _, v := range All() {
			b := &pgx.Batch{}
			v.Load(b, v.Name(), []events.Record{{Workspace: events.ID{15: 1}, Stream: events.ID{15: 1}, Seq: 1, Event: e}})
			require.NoError(t, db.SendBatch(t.Context(), b).Close(), "read the rows of the view %s that %s touches", v.Name(), kind)
			read[v.Name()] = read[v.Name()] || b.Len() > 0
		}
	}
	for _, v := range All() {
		if v != fold.View(auditlog.View) { // it reads blocks of events
			require.True(t, read[v.Name()], "no event touches the view %s", v.Name())
		}
	}
}

// kindsOf returns the nouns and kinds that a table lists.
func kindsOf(v fold.View) []string {
	table := reflect.ValueOf(v)
	if table.Kind() != reflect.Pointer {
		return nil
	}
	kinds, _ := table.Elem().FieldByName("Kinds").Interface().([]string)
	return kinds
}

// Every view is listed in All and has a mode.
func TestEveryViewIsInTheCatalogue(t *testing.T) {
	listed := map[string]bool{}
	for _, v := range All() {
		require.False(t, listed[v.Name()], "%s is listed twice", v.Name())
		listed[v.Name()] = true
		require.Contains(t, []fold.Mode{fold.Inline, fold.Followed, fold.ByAppend}, v.Mode(), "%s does not say who keeps it", v.Name())
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	wings, err := filepath.Glob("*views/*.go")
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?s)= &fold\.Table\[.*?\bView: "(\w+)"`)
	found := 0
	for _, file := range append(files, wings...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			found++
			require.True(t, listed[string(m[1])], "%s declares the view %s, which is not in All", file, m[1])
		}
	}
	require.Equal(t, len(listed)-1, found, "tables, and the audit log's view")
}
