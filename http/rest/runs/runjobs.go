package runs

import (
	"context"

	"svc/events"
	"svc/http/openapi"
	"svc/http/rest/schema"
)

// A runJob is a job that a run requested.
type runJob struct {
	ID        string `json:"id" format:"uuid"`
	Name      string `json:"name" example:"build and test"`
	Status    string `json:"status" enum:"requested,succeeded,failed,cancelled,timed_out,lost,expired" doc:"The job's status as known to the run."`
	ComputeMS int64  `json:"computeMs"`

	Purpose  events.JobPurpose `json:"purpose,omitempty" enum:"implement,analyze,plan,review,required,lane,merged" doc:"implement: it changes the code. analyze, plan, review: the implementer does that stage. required: it tests the head. lane: it tests what merging gives. merged: it tests what somebody else's merge gave. Absent for jobs from before this was recorded."`
	Attempt  int               `json:"attempt" doc:"Which try it is; above 1 after failures that were not the code's fault."`
	Reason   string            `json:"reason" doc:"Why it failed; empty if it did not, or nobody said."`
	ExitCode *int              `json:"exitCode" nullable:"true"`

	Round int               `json:"round" doc:"The round in which the run requested the job; 0 is before implementing."`
	Farm  *schema.JobAtFarm `json:"farm" doc:"The job at the build farm; null if the farm has no such job."`
}

// maxFarmLookups bounds the newest jobs of a run that are looked up at the farm.
const maxFarmLookups = 100

// addFarmState sets the state at the build farm of a run's newest jobs.
func (s *Server) addFarmState(ctx context.Context, workspace events.ID, jobs []runJob) error {
	jobs = jobs[max(0, len(jobs)-maxFarmLookups):]
	ids := make([]events.ID, 0, len(jobs))
	for _, j := range jobs {
		id, err := events.ParseID(j.ID)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	states, err := s.JobStates(ctx, workspace, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		jobs[i].Farm = states[id]
	}
	return nil
}

// exampleRunDetail returns the example run with its job at the farm.
func exampleRunDetail() runDetail {
	out := newRunDetail(ExampleRun())
	out.Links = exampleHost.links(ExampleRun())
	out.Resources.Jobs[0].Farm = &schema.JobAtFarm{
		State: events.JobStateSucceeded, Attempt: 1, Runner: &schema.JobRunner{ID: schema.ExampleNo(22).String(), Name: "builder-1"},
		StartedAt: openapi.FormatOptionalTime(new(schema.ExampleAt(24))), FinishedAt: openapi.FormatOptionalTime(new(schema.ExampleAt(22))),
		Log: schema.JobLog{Complete: true},
	}
	return out
}
