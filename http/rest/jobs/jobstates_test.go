package jobs

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/joblog"
	"svc/http/rest/door"
	"svc/projections/farmviews"
	"svc/test/world"
)

// Jobs of a run have their state at the farm, or null if the farm has no such job.
func TestRunJobsHaveFarmState(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 7)
	require.NoError(t, err)
	require.NoError(t, p.PlayEndings(t.Context()))
	s := &Server{
		Jobs: farmviews.Jobs{DB: w.DB}, Runners: farmviews.Runners{DB: w.DB}, Door: door.New(door.Config{Now: time.Now}),
		Config: Config{Logs: joblog.New(w.DB, slog.New(slog.DiscardHandler))},
	}

	ended, _, err := s.Jobs.Page(t.Context(), farmviews.JobQuery{Workspace: p.Workspace, State: events.JobStateSucceeded, Limit: 1})
	require.NoError(t, err)
	waits, _, err := s.Jobs.Page(t.Context(), farmviews.JobQuery{
		Workspace: p.Workspace, Active: true, State: events.JobStateQueued, Limit: 1,
	})
	require.NoError(t, err)

	found, total, err := s.Jobs.Page(t.Context(), farmviews.JobQuery{Workspace: p.Workspace, Q: "ｔＥＳＴＳ́", Limit: 1})
	require.NoError(t, err)
	require.NotZero(t, total)
	require.Len(t, found, 1)
	require.Equal(t, "tests", found[0].Name)

	unknown := world.NewID()
	ids := []events.ID{unknown, ended[0].ID, waits[0].ID}
	states, err := s.JobStates(t.Context(), p.Workspace, ids)
	require.NoError(t, err)
	require.Nil(t, states[unknown])
	require.Equal(t, events.JobStateSucceeded, states[ended[0].ID].State)
	require.Equal(t, "builder", states[ended[0].ID].Runner.Name)
	require.NotNil(t, states[ended[0].ID].StartedAt)
	require.NotNil(t, states[ended[0].ID].FinishedAt)
	require.Equal(t, newJob(ended[0], jobWait{}).Log, states[ended[0].ID].Log)
	require.Equal(t, events.JobStateQueued, states[waits[0].ID].State)
	require.Nil(t, states[waits[0].ID].StartedAt)

	others, err := s.JobStates(t.Context(), world.NewID(), ids)
	require.NoError(t, err)
	require.Empty(t, others, "of another workspace")
}
