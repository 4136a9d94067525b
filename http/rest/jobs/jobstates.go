package jobs

import (
	"context"

	"svc/events"
	"svc/http/rest/schema"
)

// JobStates returns the states of jobs at the build farm, by id. Jobs that the farm does not have are left out.
func (s *Server) JobStates(ctx context.Context, workspace events.ID, ids []events.ID) (map[events.ID]*schema.JobAtFarm, error) {
	found, err := s.Jobs.ByIDs(ctx, workspace, ids)
	if err != nil {
		return nil, err
	}
	live, err := s.liveJobs(ctx, workspace, found)
	if err != nil {
		return nil, err
	}
	states := map[events.ID]*schema.JobAtFarm{}
	for _, f := range found {
		j := newJob(f, jobWait{})
		live[f.ID].addTo(&j)
		states[f.ID] = &schema.JobAtFarm{
			State: j.State, Attempt: j.Attempt, Runner: j.Runner, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, Log: j.Log,
		}
	}
	return states, nil
}
