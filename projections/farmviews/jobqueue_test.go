package farmviews_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/farmviews"
	"svc/test/world"
)

// A person who fills the queue, by number of jobs or of requirements, blocks only themselves.
func TestQueueShareIsLimited(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	v, workspace, greedy, other := farmviews.Jobs{DB: w.DB}, world.NewID(), world.NewID(), world.NewID()
	insert := func(by events.ID, requirement string) {
		_, err := w.DB.Exec(t.Context(), `
			insert into jobs (workspace_id, job_id, name, state, submitted_by, requirement, required, repo_name, priority, fair_key, turn,
				submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_name, excluded, concurrency_key, concurrency, slot,
				accepted, run_seconds, expires_at, attempts, artifacts)
			values ($1, $2, 'x', 'queued', $3, $4, '{}', '', 'normal', '', 1, $5, $5, $5, 0, 0, 1, '', '{}', '', 0, 0, false, 60, $5, '[]', '{}')`,
			workspace, world.NewID(), events.Actor{Type: events.ByService, ID: by}, requirement, world.Epoch)
		require.NoError(t, err)
	}
	asks := func(by events.ID, requirement string) int {
		q, err := v.Queue(t.Context(), workspace, by, "", requirement)
		require.NoError(t, err)
		return q.Requirements
	}
	for i := range farmviews.MaxRequirements + 10 {
		insert(greedy, fmt.Sprintf("set-%03d", i))
	}
	insert(other, "set-other")
	require.Equal(t, farmviews.MaxRequirements+1, asks(greedy, "set-new"))
	require.Equal(t, 2, asks(other, "set-new"))
	require.Equal(t, 1, asks(world.NewID(), "set-new"))
	require.Zero(t, asks(greedy, "set-other"), "another job asks for that")

	full := func(by events.ID, length, most int) bool {
		full, err := v.QueueFull(t.Context(), workspace, by, length, most)
		require.NoError(t, err)
		return full
	}
	const length = farmviews.MaxRequirements + 11 // 75
	require.False(t, full(greedy, length, 100), "74 of 75 beside 25 places")
	require.True(t, full(greedy, length, 99), "74 beside 24")
	require.False(t, full(other, length, 99))
	require.False(t, full(world.NewID(), length, length+1), "the last place")
	require.True(t, full(world.NewID(), length, length))
}
