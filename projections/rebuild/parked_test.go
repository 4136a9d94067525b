package rebuild_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/world"
)

var web = events.Repo{ID: world.NewID(), Name: "acme/web"}

// Events that a view cannot fold are parked one by one, whatever is wrong with them, and all events
// around them are folded. A rebuild of all logs, and one of the workspace alone, produce the same
// rows.
func TestPoisonousEventsAreParked(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace, other := world.NewID(), world.NewID()
	var want []string
	append1 := func(workspace, stream events.ID, version int, e events.Event, bad string) {
		_, err := w.Log.Append(t.Context(),
			&events.Commit{Workspace: workspace, At: world.Epoch,
				Writes: []events.Write{{Stream: stream, Version: version, Events: []events.Event{e}}}})
		require.NoError(t, err)
		if bad != "" {
			want = append(want, bad)
		}
	}
	queue := func(workspace events.ID, title string) events.ID {
		run := world.NewID()
		append1(workspace, run, 0, events.RunQueued{Repo: web, IssueNumber: 7, IssueTitle: title}, "")
		return run
	}
	w.QueueRun(t, other)
	for range 20 {
		queue(workspace, "Fix it")
	}
	// of no run
	append1(workspace, world.NewID(), 0, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1}, "the view cannot apply an event")
	damaged := queue(workspace, "Fix it")
	append1(workspace, damaged, 1, events.RunCostRecorded{Cents: 4}, "decode run.cost_recorded")
	_, err := w.DB.Exec(t.Context(), `update events set data = '[]' where workspace_id = $1 and stream = $2 and version = 2`, workspace,
		damaged)
	require.NoError(t, err)
	run := world.NewID()
	// PostgreSQL keeps no NUL
	append1(workspace, run, 0, events.RunQueued{Repo: web, IssueNumber: 7, IssueTitle: "a\x00b"}, "invalid byte sequence")
	last := queue(workspace, "The last")

	w.Follower = world.Follow(t, w.DB)
	w.CaughtUp(t)
	live := map[string][]string{}
	for _, v := range projections.Followed() {
		live[v.Name()] = world.Dump(t, w.DB, v.Name())
	}
	require.Len(t, live["runs"], 23)
	require.Contains(t, strings.Join(live["runs"], ""), last.String())
	shown := func() (texts []string) {
		list, err := fold.ListParked(t.Context(), w.DB)
		require.NoError(t, err)
		for _, p := range list {
			require.Equal(t, workspace, p.Workspace)
			if p.View == "runs" {
				texts = append(texts, p.Error)
			}
		}
		return texts
	}
	for i, text := range shown() {
		require.Contains(t, text, want[i])
	}
	require.Len(t, shown(), len(want))

	for name, rebuild := range map[string]func(v fold.View) (rebuild.Result, error){
		"of the workspace": func(v fold.View) (rebuild.Result, error) {
			return rebuild.Log(t.Context(), w.DB, v, workspace, rebuild.Options{})
		},
		"of the workspace, in parts": func(v fold.View) (rebuild.Result, error) {
			return rebuild.RebuildLogIn(t.Context(), w.DB, v, workspace, 6)
		},
		"of all": func(v fold.View) (rebuild.Result, error) {
			return world.RebuildView(t.Context(), w.DB, v, world.IgnoreProgress)
		},
		"of all, in parts": func(v fold.View) (rebuild.Result, error) {
			return rebuild.RebuildIn(t.Context(), w.DB, v, 2, 6, world.IgnoreProgress)
		},
	} {
		for _, v := range projections.Followed() {
			r, err := rebuild(v)
			require.NoError(t, err)
			require.Empty(t, r.Differing, name, v.Name())
			require.Equal(t, live[v.Name()], world.Dump(t, w.DB, v.Name()), name, v.Name())
		}
		require.Len(t, shown(), len(want), name)
	}
}

// The rows of one workspace are rebuilt while it and others are written to.
func TestRebuildOfOneLogWhileOthersWrite(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	first, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	second, err := w.NewPlayer(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, first.Play(t.Context(), 200))
	w.CaughtUp(t)
	over, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, p := range []*world.Player{first, second} {
		others.Go(func() {
			for over.Err() == nil {
				if err := p.Play(t.Context(), 5); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		for _, v := range projections.All() {
			r, err := rebuild.Log(t.Context(), w.DB, v, first.Workspace, rebuild.Options{})
			require.NoError(t, err, v.Name())
			require.Empty(t, r.Differing, v.Name())
			require.Positive(t, r.Events)
		}
	}
	end()
	others.Wait()
	w.CaughtUp(t)
	world.RequireRebuilt(t, w.DB)
}

// A rebuild finds and repairs rows that are wrong.
func TestRebuildReportsDifferingWorkspaces(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, other := world.NewID(), world.NewID()
	w.QueueRun(t, workspace)
	w.QueueRun(t, other)
	w.CaughtUp(t)
	spoil := func() {
		_, err := w.DB.Exec(t.Context(), `update runs set cost_cents = 1e6 where workspace_id = $1`, workspace)
		require.NoError(t, err)
	}
	want := world.Dump(t, w.DB, "runs")
	spoil()
	r, err := world.RebuildView(t.Context(), w.DB, world.View(t, "runs"), world.IgnoreProgress)
	require.NoError(t, err)
	require.Equal(t, []events.ID{workspace}, r.Differing)
	require.Equal(t, want, world.Dump(t, w.DB, "runs"))
	spoil()
	r, err = rebuild.Log(t.Context(), w.DB, world.View(t, "runs"), workspace, rebuild.Options{})
	require.NoError(t, err)
	require.Equal(t, []events.ID{workspace}, r.Differing)
	require.Equal(t, want, world.Dump(t, w.DB, "runs"))
}

// While the replacement of a log's rows waits for a lock, the log grows; afterwards the view goes
// on.
func TestLogGrowsDuringRebuildLog(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	w.CaughtUp(t)
	held, err := w.DB.Begin(t.Context())
	require.NoError(t, err)
	defer held.Rollback(context.Background())
	_, err = held.Exec(t.Context(), `select from runs where workspace_id = $1 for update`, workspace)
	require.NoError(t, err)

	done := make(chan error, 1)
	go func() {
		done <- world.Err(rebuild.Log(t.Context(), w.DB, world.View(t, "runs"), workspace, rebuild.Options{}))
	}()
	require.Eventually(t, func() (waits bool) {
		require.NoError(t, w.DB.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock' and query like 'delete from runs%')`).Scan(&waits))
		return waits
	}, world.Limit, 2*time.Millisecond)
	world.RecordRandomCosts(t, w.Commands, workspace, run, 3, func() {})
	require.NoError(t, held.Rollback(t.Context()))
	select {
	case err = <-done:
	case <-time.After(world.Limit):
		require.FailNow(t, "it did not end")
	}
	require.NoError(t, err)
	w.CaughtUp(t)
	world.RequireRebuilt(t, w.DB)
}
