package rest

import (
	"context"

	"svc/events"
	"svc/projections"
)

// A runJob is a job that a run asked for.
type runJob struct {
	ID        string     `json:"id" format:"uuid"`
	Name      string     `json:"name" example:"build and test"`
	Status    string     `json:"status" enum:"requested,succeeded,failed,cancelled" doc:"What the run was told of it."`
	ComputeMS int64      `json:"computeMs"`
	Round     int        `json:"round" doc:"The round of the run in which it asked for the job: 0 is before it began to implement."`
	Farm      *jobAtFarm `json:"farm" doc:"What the build farm has of it: null if it knows no job of this id."`
}

// A jobAtFarm is how far a job is at the build farm.
type jobAtFarm struct {
	_          struct{}        `nullable:"true"`
	State      events.JobState `json:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired"`
	Attempt    int             `json:"attempt"`
	Runner     *jobRunner      `json:"runner" doc:"That has it, or had it last: null while none had."`
	StartedAt  *timestamp      `json:"startedAt" nullable:"true"`
	FinishedAt *timestamp      `json:"finishedAt" nullable:"true"`
	LogBytes   int64           `json:"logBytes" doc:"Of the last attempt, so far."`
}

// runJobsLooked is how many of a run's jobs, the newest, are looked for at the farm.
const runJobsLooked = 100

// atFarm adds to jobs of a run what the build farm has of them.
func (s *Server) atFarm(ctx context.Context, workspace events.ID, jobs []runJob) error {
	jobs = jobs[max(0, len(jobs)-runJobsLooked):]
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
	found, err := s.views.Jobs.ByIDs(ctx, workspace, ids)
	if err != nil {
		return err
	}
	live, err := s.liveJobs(ctx, workspace, found)
	if err != nil {
		return err
	}
	for _, f := range found {
		one := newJob(f, "", nil)
		live[f.ID].of(&one)
		for i := range jobs {
			if jobs[i].ID == one.ID {
				jobs[i].Farm = newJobAtFarm(one)
			}
		}
	}
	return nil
}

func newJobAtFarm(j FarmJob) *jobAtFarm {
	return &jobAtFarm{
		State: j.State, Attempt: j.Attempt, Runner: j.Runner, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, LogBytes: j.Log.Bytes,
	}
}

// exampleRunDetail has the job of the run at the farm.
func exampleRunDetail() runDetail {
	out := newRunDetail(exampleRun())
	out.Links = exampleHost.links(exampleRun())
	out.Resources.Jobs[0].Farm = newJobAtFarm(newJob(projections.Job{
		ID: exampleNo(10), Name: "build and test", State: events.JobSucceeded, Attempt: 1, Runner: new(exampleNo(22)), RunnerName: "builder-1",
		StartedAt: new(exampleAt(24)), FinishedAt: new(exampleAt(22)),
	}, "", nil))
	return out
}
