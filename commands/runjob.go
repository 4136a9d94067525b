package commands

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"svc/aggregates"
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
// repository. After is as in [RecordRun]. Spec has been returned by [aggregates.CheckJob]; Turn is
// as in [SubmitJob].
type StartRunJob struct {
	Meta     `json:"-"`
	Run      events.ID                            `json:"runId"`
	After    int                                  `json:"after,omitempty"`
	Request  events.RunJobRequested               `json:"request"`
	Spec     events.JobSpec                       `json:"spec"`
	RepoName string                               `json:"-"` // present name of Spec.Repo
	FairKey  string                               `json:"-"`
	Turn     func(context.Context) (int64, error) `json:"-"`
}

// StartRunJob stores both events or neither. It refuses a job that the run may not request, and one
// whose input is not the one that the run's event names.
func (h *Handler) StartRunJob(ctx context.Context, c StartRunJob) (Result, error) {
	spec := namedRepo(c.Spec, c.RepoName)
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		err := onRun(c.Run, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
			repo, _ := run.Issue()
			switch {
			case w.Meta.Actor != LoopOf(repo.ID):
				return nil, fmt.Errorf("start job %s of run %s as %s: only the loop does", c.Request.Job, c.Run, w.Meta.Actor.Name)
			case c.Request.Input != spec.InputSHA256:
				return nil, fmt.Errorf("start job %s of run %s: its input is not the requested one", c.Request.Job, c.Run)
			}
			if err := requireVersion(w, c.Run, c.After); err != nil {
				return nil, err
			}
			return run.Record(c.Request)
		})(w)
		if err != nil {
			return err
		}
		return submitJob(SubmitJob{Job: c.Request.Job, Spec: spec, FairKey: c.FairKey, Turn: c.Turn}, events.ID{})(w)
	})
}

// cancelJobs cancels those of a run's jobs that have not ended. They are in the order of their ids,
// in which every command locks them.
func cancelJobs(w *work.Unit, jobs []events.ID) error {
	for _, id := range jobs {
		err := onJob(id, func(w *work.Unit, j *aggregates.Job) ([]events.Event, error) {
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
}

// SettleRunJob does nothing as long as the job has not ended or artifacts of it are expected, and if
// the job was settled before. It refuses a job that the run did not request.
func (h *Handler) SettleRunJob(ctx context.Context, c SettleRunJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onRun(c.Run, func(w *work.Unit, run *aggregates.Run) ([]events.Event, error) {
		var closed bool
		err := work.Inspect(w, c.Job, func(j *aggregates.Job) error {
			closed = j.Closed()
			return nil
		})
		if err != nil || !closed {
			return nil, err
		}
		if run.Settled(c.Job) {
			return nil, nil
		}
		end, err := jobEnd(w.Context(), w.Streams, w.Meta.Workspace, c.Job)
		if err != nil {
			return nil, err
		}
		return run.Record(end, events.RunCostRecorded{
			Key: "job/" + c.Job.String() + "/farm", Source: "farm", Quantity: end.ComputeMS,
			Cents: int64(math.Round(float64(end.ComputeMS) * c.CentsPerMinute / 60_000)),
		})
	}))
}

// A RunJobState is how far a job is. Closed means that it has ended and nothing more comes of it.
type RunJobState struct {
	State  events.JobState // "" if there is no such job
	Closed bool
	Epoch  int // of its last lease, whose log it is; 0 if there was none
}

// RunJobState returns how far a job is, as the log says.
func (h *Handler) RunJobState(ctx context.Context, workspace, job events.ID) (s RunJobState, err error) {
	err = read(ctx, h, workspace, job, func(j *aggregates.Job) { s = RunJobState{j.State(), j.Closed(), j.Epoch()} })
	if err != nil {
		return s, fmt.Errorf("look up job %s: %w", job, err)
	}
	return s, nil
}

// jobEnd returns how a job ended. Its time on runners, of all attempts, is measured by the times in
// the ids of its events: those of rows, and those that runners report, are not authenticated.
func jobEnd(ctx context.Context, from events.Streams, workspace, job events.ID) (end events.RunJobSettled, err error) {
	var state aggregates.Job
	var began time.Time // of the attempt that runs; zero if none does
	var asked string    // why it is being cancelled
	end.Job = job
	for r, err := range events.ReadStream(ctx, from, workspace, job) {
		if err != nil {
			return end, fmt.Errorf("load job %s: %w", job, err)
		}
		state.Apply(r.Event, r.Actor)
		end.Reason, end.ExitCode = endReason(end, r.Event, asked)
		switch e := r.Event.(type) {
		case events.JobStarted:
			began = r.ID.Time()
		case events.JobCancelRequested:
			asked = e.Reason
		}
		if !began.IsZero() && events.LeavesRunner([]events.Event{r.Event}) {
			end.ComputeMS += max(0, r.ID.Time().Sub(began).Milliseconds())
			began = time.Time{}
		}
	}
	end.Status = string(state.State())
	return end, nil
}

// endReason returns the reason and the exit code of a job's end after one more event. asked is why the
// job was being cancelled, if it was: its runner reports only that.
func endReason(end events.RunJobSettled, e events.Event, asked string) (reason string, exitCode *int) {
	switch e := e.(type) {
	case events.JobFinished:
		return cmp.Or(asked, e.Reason), e.ExitCode
	case events.JobCancelled:
		return e.Reason, nil
	case events.JobLost:
		return e.Why(), nil
	case events.JobArtifactsCompleted:
		if e.FailsJob() {
			return events.ArtifactMissing, end.ExitCode
		}
	case events.JobArtifactsAbandoned:
		if e.FailsJob() {
			return events.ArtifactMissing, end.ExitCode
		}
	}
	return end.Reason, end.ExitCode
}
