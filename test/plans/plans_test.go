// Package plans_test holds the plans of PostgreSQL that are in force once a
// connection has carried out a statement some times, on tables as large as they
// may be: no statement reads a large table, or reads far more than it answers. Nor
// does one that concerns a single workspace leave out which, for any table.
package plans_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Whatever is asked of the database is asked here six times on a connection. A
// statement that is new and not asked here is named by the test.
func TestPlansThatAreInForce(t *testing.T) {
	w := newWatcher()
	url := pgtest.URL(t)
	begun := time.Now()
	site := build(t, url)
	t.Logf("built in %s", time.Since(begun))
	site.exercise(t, w)
	t.Logf("asked in %s", time.Since(begun))

	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sql := range slices.Sorted(maps.Keys(w.bad)) {
		if !excepted(sql, "") {
			t.Errorf("%s\n%s", sql, w.bad[sql])
		}
	}
	list := writtenIn(t, "projections", "proof", "sessions", "events/store", "events/follow", "events/feed", "farm/joblog",
		"farm/dispatch", "farm/ingest", "farm/jobinput", "farm/queue", "farm/sweep", "http/hooks", "loop")
	for _, s := range list {
		most := 0
		for sql, n := range w.most {
			if s.in(sql) {
				most = max(most, n)
			}
		}
		if most < settled && !excepted(s.text(), s.file) {
			t.Errorf("%s: asked %d times here, %d are needed", s.at, most, settled)
		}
	}
	source := writtenIn(t, "projections", "proof", "sessions", "events", "farm", "integrity", "http/hooks", "loop")
	for _, problem := range newSchema(t, url).problems(t, w.text, source, acrossWorkspaces) {
		t.Error(problem)
	}
	for _, e := range exceptions {
		asked := slices.ContainsFunc(slices.Collect(maps.Keys(w.most)), func(sql string) bool { return e.of(sql, "") })
		if !asked && !slices.ContainsFunc(list, func(s written) bool { return e.of(s.text(), s.file) }) {
			t.Errorf("an exception of nothing: %+v: remove it from exceptions_test.go, or ask it in exercise_test.go", e)
		}
	}
}
