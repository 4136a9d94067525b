//go:build !race

package rebuild_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/world"
)

// A rebuild of one log that is interrupted leaves no parked events. When the event can be read again, the next
// rebuild does not count it.
func TestInterruptedRebuildOfLogParksNothing(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	w.QueueRun(t, workspace)
	var kept string
	require.NoError(t, w.DB.QueryRow(t.Context(), `select data::text from events where workspace_id = $1 and seq = 1`, workspace).Scan(&kept))
	_, err := w.DB.Exec(t.Context(), `update events set data = '"damaged"' where workspace_id = $1 and seq = 1`, workspace)
	require.NoError(t, err)
	w.Follower = world.Follow(t, w.DB)
	w.CaughtUp(t)
	parked, err := fold.ListParked(t.Context(), w.DB)
	require.NoError(t, err)
	require.NotEmpty(t, parked)

	ctx, stop := context.WithCancel(t.Context())
	_, err = rebuild.Log(ctx, w.DB, world.View(t, "runs"), workspace, rebuild.Options{Progress: func(int64, int64) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	after, err := fold.ListParked(t.Context(), w.DB)
	require.NoError(t, err)
	require.Equal(t, parked, after)
	done, err := rebuild.Log(t.Context(), w.DB, world.View(t, "runs"), workspace, rebuild.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, done.Parked)

	_, err = w.DB.Exec(t.Context(), `update events set data = $2::json where workspace_id = $1 and seq = 1`, workspace, kept)
	require.NoError(t, err)
	done, err = rebuild.Log(t.Context(), w.DB, world.View(t, "runs"), workspace, rebuild.Options{})
	require.NoError(t, err)
	require.Len(t, world.Dump(t, w.DB, "runs"), 1)
	require.Zero(t, done.Parked)
}

// A rebuild of one log sets back a checkpoint that is beyond the head of the log, as a rebuild of all logs does.
func TestRebuildOfLogSetsBackCheckpointBeyondHead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.RecordCosts(t, workspace, w.QueueRun(t, workspace), 3)
	w.CaughtUp(t)
	_, err := w.DB.Exec(t.Context(), `update checkpoints set seq = 9 where view = 'runs' and workspace_id = $1`, workspace)
	require.NoError(t, err)
	require.NotEmpty(t, world.Compare(t, w.DB, workspace).Differences)
	_, err = rebuild.Log(t.Context(), w.DB, world.View(t, "runs"), workspace, rebuild.Options{})
	require.NoError(t, err)
	require.Empty(t, world.Compare(t, w.DB, workspace).Differences)
}
