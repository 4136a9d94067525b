package farmviews_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/farmviews"
	"svc/test/world"
)

// An endedJob describes a job: how it ended, how long ago, and how long it had waited. A negative
// wait means that no runner had it.
type endedJob struct {
	state  events.JobState
	before time.Duration
	waited time.Duration
}

func TestFarmDaySummary(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, now := world.NewID(), world.Epoch
	insert := func(workspace, id events.ID, state events.JobState, queued time.Time, leased, ended *time.Time) {
		_, err := w.DB.Exec(t.Context(), `
			insert into jobs (workspace_id, job_id, name, state, submitted_by, requirement, required, repo_name, priority, fair_key, turn,
				submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_name, excluded, concurrency_key, concurrency, slot,
				leased_at, accepted, finished_at, run_seconds, expires_at, attempts, artifacts)
			values ($1, $2, 'x', $3, '{}', '', '{}', '', 'normal', '', 1, $4, $4, $4, 0, 1, 1, '', '{}', '',
				0, 0, $5, false, $6, 60, $4, '[]', '{}')`,
			workspace, id, state, queued, leased, ended)
		require.NoError(t, err)
	}
	day := 24 * time.Hour
	list := []endedJob{
		{events.JobStateSucceeded, 0, time.Second}, {events.JobStateSucceeded, time.Hour, 3 * time.Second},
		{events.JobStateFailed, day - time.Second, 20 * time.Second},
		{events.JobStateExpired, time.Minute, -1},
		{events.JobStateSucceeded, day, 8 * time.Second}, {events.JobStateLost, 2*day - time.Second, 10 * time.Second}, // the day before
		{events.JobStateSucceeded, 2 * day, time.Hour}, {events.JobStateSucceeded, -time.Second, time.Hour},
	}
	for _, j := range list {
		ended := now.Add(-j.before)
		queued := ended.Add(-2 * time.Hour)
		leased := new(queued.Add(j.waited))
		if j.waited < 0 {
			leased = nil
		}
		insert(workspace, world.NewID(), j.state, queued, leased, &ended)
	}
	for i, minutes := range []int{2, 1, 3, 2} { // the first two had an earlier attempt
		id := events.NewID(now.Add(time.Duration(i) * time.Second))
		insert(workspace, id, events.JobStateQueued, now.Add(-time.Duration(minutes)*time.Minute), nil, nil)
		if i < 2 {
			_, err := w.DB.Exec(t.Context(), `update jobs set epoch = 1 where workspace_id = $1 and job_id = $2`, workspace, id)
			require.NoError(t, err)
		}
	}
	ended := now.Add(-time.Minute)
	insert(world.NewID(), world.NewID(), events.JobStateSucceeded, now.Add(-time.Hour), &ended, &ended)

	f, err := farmviews.BuildFarm{DB: w.DB}.Get(t.Context(), workspace, now)
	require.NoError(t, err)
	require.Equal(t, map[events.JobState]int{events.JobStateSucceeded: 2, events.JobStateFailed: 1, events.JobStateExpired: 1}, f.Day.ByState)
	require.Equal(t, []any{4, 3 * time.Second}, []any{f.Day.Jobs, *f.Day.Wait})
	require.Equal(t, []any{2, 9 * time.Second}, []any{f.Prior.Jobs, *f.Prior.Wait})
	require.WithinDuration(t, now.Add(-3*time.Minute), *f.OldestSince, 0, "the one that waits longest")

	f, err = farmviews.BuildFarm{DB: w.DB}.Get(t.Context(), world.NewID(), now)
	require.NoError(t, err)
	require.Nil(t, f.OldestSince)
	require.Equal(t, farmviews.FarmDay{ByState: map[events.JobState]int{}}, f.Day)
}
