//go:build !race

package rebuild_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/rebuild"
	"svc/test/world"
)

// A rebuild of a log from which events are gone fails with an error that names them, and leaves the
// view unchanged.
func TestRebuildFailsOnMissingEvent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"runs", "audit", "members"} {
		for gone, seq := range map[string]int64{"the tail": 5, "the middle": 3, "the beginning": 1} {
			t.Run(name+", "+gone, func(t *testing.T) {
				t.Parallel()
				w := world.NewSilent(t)
				workspace := logWithMissingEvent(t, w, seq)
				w.QueueRun(t, world.NewID())
				v, before := world.View(t, name), describeTable(t, w.DB, name)
				ctx, cancel := context.WithTimeout(t.Context(), world.Limit)
				defer cancel()
				for how, err := range map[string]error{
					"all":               world.Err(world.RebuildView(ctx, w.DB, v, world.IgnoreProgress)),
					"all, in parts":     world.Err(rebuild.RebuildIn(ctx, w.DB, v, 1, 2, world.IgnoreProgress)),
					"one log":           world.Err(rebuild.Log(ctx, w.DB, v, workspace, rebuild.Options{})),
					"one log, in parts": world.Err(rebuild.RebuildLogIn(ctx, w.DB, v, workspace, 2)),
				} {
					require.ErrorContains(t, err, workspace.String(), how)
					require.ErrorContains(t, err, fmt.Sprintf("event %d is missing", seq), how)
				}
				require.Equal(t, before, describeTable(t, w.DB, name))
			})
		}
	}
}

// So does a rebuild during which the head of a log moves without an event.
func TestRebuildFailsWhenHeadMovesWithoutEvent(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.QueueRun(t, workspace)
	w.CaughtUp(t)
	want := world.Dump(t, w.DB, "runs")
	err := world.Err(world.RebuildView(t.Context(), w.DB, world.View(t, "runs"), func(int64, int64) {
		_, err := w.DB.Exec(t.Context(), `update logs set head = 2 where workspace_id = $1`, workspace)
		require.NoError(t, err)
	}))
	require.ErrorContains(t, err, "log "+workspace.String()+": event 2 is missing")
	require.Equal(t, want, world.Dump(t, w.DB, "runs"))
}

// logWithMissingEvent makes a log of five events and deletes one of them.
func logWithMissingEvent(t *testing.T, w *world.World, seq int64) events.ID {
	t.Helper()
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	world.RecordRandomCosts(t, w.Commands, workspace, run, 4, func() {})
	_, err := w.DB.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = $2`, workspace, seq)
	require.NoError(t, err)
	return workspace
}
