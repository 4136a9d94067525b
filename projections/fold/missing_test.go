package fold_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// A log from which events are gone ends a rebuild with an error that names them,
// and leaves the view as it was.
func TestAMissingEventEndsARebuild(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"runs", "audit", "members"} {
		for gone, seq := range map[string]int64{"the tail": 5, "the middle": 3, "the beginning": 1} {
			t.Run(name+", "+gone, func(t *testing.T) {
				t.Parallel()
				w := world.NewSilent(t)
				workspace := missing(t, w, seq)
				w.Queued(t, world.NewID())
				v, before := world.View(t, name), shape(t, w.DB, name)
				ctx, cancel := context.WithTimeout(t.Context(), world.Limit)
				defer cancel()
				for how, err := range map[string]error{
					"all":               world.Only(fold.Rebuild(ctx, w.DB, v, world.Quiet)),
					"all, in parts":     world.Only(fold.RebuildIn(ctx, w.DB, v, 1, 2, world.Quiet)),
					"one log":           world.Only(fold.RebuildLog(ctx, w.DB, v, workspace, world.Quiet)),
					"one log, in parts": world.Only(fold.RebuildLogIn(ctx, w.DB, v, workspace, 2)),
				} {
					require.ErrorContains(t, err, workspace.String(), how)
					require.ErrorContains(t, err, fmt.Sprintf("event %d is missing", seq), how)
				}
				require.Equal(t, before, shape(t, w.DB, name))
			})
		}
	}
}

// So does a head that moves without an event while a rebuild is under way.
func TestAnEventThatNeverCameEndsARebuild(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.Queued(t, workspace)
	w.CaughtUp(t)
	want := world.Dump(t, w.DB, "runs")
	err := world.Only(fold.Rebuild(t.Context(), w.DB, world.View(t, "runs"), func(int64, int64) {
		_, err := w.DB.Exec(t.Context(), `update logs set head = 2 where workspace_id = $1`, workspace)
		require.NoError(t, err)
	}))
	require.ErrorContains(t, err, "log "+workspace.String()+": event 2 is missing")
	require.Equal(t, want, world.Dump(t, w.DB, "runs"))
}

// missing makes a log of five events, of which one is gone.
func missing(t *testing.T, w *world.World, seq int64) events.ID {
	t.Helper()
	workspace := world.NewID()
	run := w.Queued(t, workspace)
	world.Bill(t, w.Commands, workspace, run, 4, func() {})
	_, err := w.DB.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = $2`, workspace, seq)
	require.NoError(t, err)
	return workspace
}

// A follower says so instead of finding nothing for ever.
func TestAFollowerMissesTheTailOfALog(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := missing(t, w, 5)
	said := make(lines, 100)
	f := fold.NewFollower(w.DB, projections.Followed(), func(view string) bool { return view == "runs" }, slog.New(slog.NewTextHandler(said, nil)))
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
	world.Await(t, f, "runs", workspace, 4)
}
