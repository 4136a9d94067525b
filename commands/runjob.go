package commands

import (
	"context"
	"fmt"
	"math"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
)

// RunOver is the reason for cancelling the jobs of a run that has ended.
const RunOver = "run_over"

// LoopOf is the actor of what the service does for a repository's runs. Its id is the repository's,
// by which the queue counts jobs, so that one repository's jobs take no room from another's.
func LoopOf(repo events.ID) events.Actor {
	return events.Actor{Type: events.BySystem, ID: repo, Name: "loop"}
}

// StartRunJob records that a run needs a job, and submits the job. Its actor is [LoopOf] the run's
// repository. After is as in [RecordRun]. Spec has been returned by [farm.CheckJob].
type StartRunJob struct {
	Meta     `json:"-"`
	Run      events.ID              `json:"runId"`
	After    int                    `json:"after,omitempty"`
	Request  events.RunJobRequested `json:"request"`
	Spec     events.JobSpec         `json:"spec"`
	RepoName string                 `json:"-"` // present name of Spec.Repo
}

// StartRunJob stores both events or neither. It refuses a job that the run may not request, one whose input is not the one
// that the run's event names, and an implementer's that the issue has no money for.
func (h *Handler) StartRunJob(ctx context.Context, c StartRunJob) (Result, error) {
	submit := h.submitJob(SubmitJob{Meta: c.Meta, Job: c.Request.Job, Spec: c.Spec, RepoName: c.RepoName}, events.ID{})
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		err := onRunAt(c.Run, c.After, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
			repo, _ := run.Issue()
			switch {
			case w.Meta.Actor != LoopOf(repo.ID):
				return nil, fmt.Errorf("start job %s of run %s as %s: only the loop does", c.Request.Job, c.Run, w.Meta.Actor.Name)
			case c.Request.Input != c.Spec.InputSHA256:
				return nil, fmt.Errorf("start job %s of run %s: its input is not the requested one", c.Request.Job, c.Run)
			}
			if c.Request.Purpose.IsImplementers() {
				if err := requireMoney(w, run); err != nil {
					return nil, err
				}
			}
			return run.Record(c.Request)
		})(w)
		if err != nil {
			return err
		}
		return submit(w)
	})
}

// cancelJobs cancels those of a run's jobs that have not ended. They are in the order of their ids,
// in which every command locks them.
func cancelJobs(w *work.Unit, jobs []events.ID) error {
	for _, id := range jobs {
		err := onJob(id, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
			if j.State() == "" { // requested by an earlier build, which did not submit it in the same commit
				return nil, nil
			}
			return j.Cancel(RunOver, nil, w.Now)
		})(w)
		if err != nil {
			return err
		}
	}
	return nil
}

// SettleRunJob records in a run how one of its jobs ended, and what the job's time on runners cost.
type SettleRunJob struct {
	Meta
	Run            events.ID
	Job            events.ID
	CentsPerMinute float64 // of a runner
	Failure        string  // see [events.RunJobSettled]
}

// SettleRunJob does nothing as long as the job has not ended or artifacts of it are expected, and if
// the job was settled before. It refuses a job that the run did not request.
func (h *Handler) SettleRunJob(ctx context.Context, c SettleRunJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRun(c.Run, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		closed, err := factOf(w, c.Job, (*farm.Job).Closed)
		if err != nil || !closed || run.Settled(c.Job) {
			return nil, err
		}
		job, err := readJob(w.Context(), w.Streams, w.Meta.Workspace, c.Job)
		if err != nil {
			return nil, err
		}
		end := job.end
		end.Failure = c.Failure
		return run.Record(end, events.RunCostRecorded{
			Key: "job/" + c.Job.String() + "/farm", Source: "farm", Quantity: end.ComputeMS,
			Cents: int64(math.Round(float64(end.ComputeMS) * c.CentsPerMinute / 60_000)),
		})
	}))
}
