package rest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/joblog"
	"svc/projections"
	"svc/test/world"
)

// Jobs of a run have their state at the farm, or null if the farm has no such job.
func TestRunJobsHaveFarmState(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 7)
	require.NoError(t, err)
	require.NoError(t, p.PlayEndings(t.Context()))
	s := New(Config{
		Primary: Primary{Jobs: projections.Jobs{DB: w.DB}, Runners: projections.Runners{DB: w.DB}}, Now: time.Now,
		Farm: Farm{Logs: joblog.New(w.DB, slog.New(slog.DiscardHandler))},
	})

	ended, _, err := s.Primary.Jobs.Page(t.Context(), projections.JobQuery{Workspace: p.Workspace, State: events.JobStateSucceeded, Limit: 1})
	require.NoError(t, err)
	waits, _, err := s.Primary.Jobs.Page(t.Context(), projections.JobQuery{
		Workspace: p.Workspace, Active: true, State: events.JobStateQueued, Limit: 1,
	})
	require.NoError(t, err)

	found, total, err := s.Primary.Jobs.Page(t.Context(), projections.JobQuery{Workspace: p.Workspace, Q: "ｔＥＳＴＳ́", Limit: 1})
	require.NoError(t, err)
	require.NotZero(t, total)
	require.Len(t, found, 1)
	require.Equal(t, "tests", found[0].Name)

	unknown := world.NewID()
	jobs := []runJob{{ID: unknown.String()}, {ID: ended[0].ID.String()}, {ID: waits[0].ID.String()}}
	require.NoError(t, s.addFarmState(t.Context(), p.Workspace, jobs))
	require.Nil(t, jobs[0].Farm)
	require.Equal(t, events.JobStateSucceeded, jobs[1].Farm.State)
	require.Equal(t, "builder", jobs[1].Farm.Runner.Name)
	require.NotNil(t, jobs[1].Farm.StartedAt)
	require.NotNil(t, jobs[1].Farm.FinishedAt)
	require.Equal(t, newJob(ended[0], jobWait{}).Log, jobs[1].Farm.Log)
	require.Equal(t, events.JobStateQueued, jobs[2].Farm.State)
	require.Nil(t, jobs[2].Farm.StartedAt)

	others := []runJob{{ID: ended[0].ID.String()}}
	require.NoError(t, s.addFarmState(t.Context(), world.NewID(), others))
	require.Nil(t, others[0].Farm, "of another workspace")
}
