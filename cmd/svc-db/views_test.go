package main

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
)

// An operator lists, retries and finally skips a parked event.
func TestParkedEventIsListedRetriedAndSkipped(t *testing.T) {
	d := newDatabase(t)
	require.Zero(t, runHere(t, d.environ, "migrate").status)
	db, err := pgxpool.New(t.Context(), d.cfg.ConnString())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	log := store.New(db, nil, func(events.ID, int64) {})
	t.Cleanup(log.Close)
	workspace, run := events.NewID(time.Now()), events.NewID(time.Now())
	_, err = log.Append(t.Context(), &events.Commit{Workspace: workspace, At: time.Now(),
		Writes: []events.Write{{Stream: run, Events: []events.Event{
			events.RunQueued{Repo: events.Repo{ID: run, Name: "acme/web"}, IssueNumber: 7},
			events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		}}}})
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `update events set data = '{"stage": 7}' where workspace_id = $1 and seq = 2`, workspace)
	require.NoError(t, err)

	text := runHere(t, d.environ, "views").stdout
	require.Regexp(t, `runs +followed +2 +1 +0 +0 +1 +never\n`, text)
	require.Regexp(t, `members +inline +- +- +- +0 +1 +never\n`, text)
	for _, name := range []string{"proof", "bus"} {
		require.Regexp(t, `\n`+name+` +followed +2 +1 +0 +- +- +-\n`, text)
	}

	var followed []string
	for _, v := range projections.Followed() {
		followed = append(followed, v.Name())
	}
	catchUp(t, db, followed...)
	text = runHere(t, d.environ, "parked").stdout
	require.Regexp(t, `runs `+workspace.String()+` 2 run.stage_entered: .*decode run.stage_entered: .* \(\d{4}-.*Z\)\n`, text)
	require.Contains(t, text, " parked\n")
	require.Regexp(t, `runs +followed +0 +0 +\d+ +1 +1 +never\n`, runHere(t, d.environ, "views").stdout)

	r := runHere(t, d.environ, "retry", "runs")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "runs of "+workspace.String()+": rebuilt from 2 events")
	require.Contains(t, r.stdout, "runs: 1 events are parked")

	r = runHere(t, d.environ, "skip", "runs", "-workspace="+workspace.String(), "-seq=1")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "runs has no parked event 1 of "+workspace.String())
	r = runHere(t, d.environ, "skip", "runs")
	require.Equal(t, 2, r.status)
	require.Contains(t, r.stderr, "skip needs one view, -workspace and -seq")
	require.Zero(t, runHere(t, d.environ, "skip", "runs", "-workspace="+workspace.String(), "-seq=2").status)
	require.NotContains(t, runHere(t, d.environ, "parked").stdout, "\nruns")

	// A rebuild tries it too.
	r = runHere(t, d.environ, "rebuild", "runs")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "runs: 1 events are parked")

	// A repaired event is folded.
	_, err = db.Exec(t.Context(), `update events set data = '{"stage": "analyze", "attempt": 1}' where workspace_id = $1 and seq = 2`,
		workspace)
	require.NoError(t, err)
	r = runHere(t, d.environ, "rebuild", "runs", "-workspace="+workspace.String())
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stdout, "its rows differed from the log")
	require.Equal(t, "ERROR: rebuilt, but rows differed from the log: runs\n", r.stderr)
	var status string
	require.NoError(t, db.QueryRow(t.Context(), `select status from runs where run_id = $1`, run).Scan(&status))
	require.Equal(t, "analyzing", status)
}

func TestUnknownWorkspaceIsRejected(t *testing.T) {
	d := newDatabase(t)
	require.Zero(t, runHere(t, d.environ, "migrate").status)
	none := events.NewID(time.Now()).String()
	for _, args := range [][]string{{"rebuild"}, {"rebuild", "runs"}, {"retry"}, {"skip", "runs", "-seq=1"}} {
		r := runHere(t, d.environ, append(args, "-workspace="+none)...)
		require.Equal(t, result{status: 1, stderr: "ERROR: there is no workspace " + none + "\n"}, r, args)
	}
}

// catchUp runs the followed views until they have caught up.
func catchUp(t *testing.T, db *pgxpool.Pool, views ...string) {
	t.Helper()
	f := fold.NewFollower(db, projections.Followed(), func(view string) bool { return slices.Contains(views, view) },
		slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	rows, err := db.Query(t.Context(), `select workspace_id, head from logs`)
	require.NoError(t, err)
	var workspace events.ID
	var head int64
	heads := map[events.ID]int64{}
	for rows.Next() {
		require.NoError(t, rows.Scan(&workspace, &head))
		heads[workspace] = head
	}
	for workspace, head := range heads {
		for _, v := range views {
			require.NoError(t, f.Await(t.Context(), v, workspace, head), v)
		}
	}
	stop()
	<-done
}
