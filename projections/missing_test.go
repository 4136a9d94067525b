package projections_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
)

// A log from which events are gone ends a rebuild with an error that names them,
// and leaves the view as it was.
func TestAMissingEventEndsARebuild(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"runs", "audit", "members"} {
		for gone, seq := range map[string]int64{"the tail": 5, "the middle": 3, "the beginning": 1} {
			t.Run(name+", "+gone, func(t *testing.T) {
				t.Parallel()
				w := newSilentWorld(t)
				workspace := w.missing(t, seq)
				w.queued(t, newID())
				v, before := view(t, name), shape(t, w.db, name)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				for how, err := range map[string]error{
					"all":               only(projections.Rebuild(ctx, w.db, v, quiet)),
					"all, in parts":     only(projections.RebuildIn(ctx, w.db, v, 1, 2, quiet)),
					"one log":           only(projections.RebuildLog(ctx, w.db, v, workspace, quiet)),
					"one log, in parts": only(projections.RebuildLogIn(ctx, w.db, v, workspace, 2)),
				} {
					require.ErrorContains(t, err, workspace.String(), how)
					require.ErrorContains(t, err, fmt.Sprintf("event %d is missing", seq), how)
				}
				require.Equal(t, before, shape(t, w.db, name))
			})
		}
	}
}

// So does a head that moves without an event while a rebuild is under way.
func TestAnEventThatNeverCameEndsARebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.queued(t, workspace)
	w.caughtUp(t)
	want := dump(t, w.db, "runs")
	err := only(projections.Rebuild(t.Context(), w.db, view(t, "runs"), func(int64, int64) {
		_, err := w.db.Exec(t.Context(), `update logs set head = 2 where workspace_id = $1`, workspace)
		require.NoError(t, err)
	}))
	require.ErrorContains(t, err, "log "+workspace.String()+": event 2 is missing")
	require.Equal(t, want, dump(t, w.db, "runs"))
}

// missing makes a log of five events, of which one is gone.
func (w *world) missing(t *testing.T, seq int64) events.ID {
	t.Helper()
	workspace := newID()
	run := w.queued(t, workspace)
	bill(t, w.commands, workspace, run, 4, func() {})
	_, err := w.db.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = $2`, workspace, seq)
	require.NoError(t, err)
	return workspace
}

// A follower says so instead of finding nothing for ever.
func TestAFollowerMissesTheTailOfALog(t *testing.T) {
	t.Parallel()
	w := newSilentWorld(t)
	workspace := w.missing(t, 5)
	said := make(lines, 100)
	f := projections.NewFollower(w.db, func(view string) bool { return view == "runs" }, slog.New(slog.NewTextHandler(said, nil)))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
	}()
	said.await(t, "standing still", workspace.String(), "event 5 is missing")
	await(t, f, "runs", workspace, 4)
}
