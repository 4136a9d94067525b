package commands

import (
	"context"
	"time"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// SubmitJob submits a job to the build farm. Spec has been returned by [farm.CheckJob].
type SubmitJob struct {
	Meta     `json:"-"`
	Job      events.ID          `json:"-"`
	Spec     events.JobSpec     `json:"spec"`
	RepoName string             `json:"-"` // present name of Spec.Repo; a repetition of the request may find another
	Token    events.Fingerprint `json:"-"` // of the service account, if one submits
}

func (c SubmitJob) denial() events.CommandDenied {
	e := denialOf(events.JobSubmitted{}, events.ID{})
	e.Name, _ = input.Name("name", c.Spec.Name) // empty if it is malformed
	return e
}

func (SubmitJob) limit() *limit { return byVolume }

// A JobAnswer is the stored answer of a command that submitted a job.
type JobAnswer struct {
	Job events.ID `json:"jobId"`
}

// SubmitJob refuses callers who may not run jobs, and a job that the queue does not take.
func (h *Handler) SubmitJob(ctx context.Context, c SubmitJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifMayRunJobs(c.Token, h.submitJob(c, events.ID{})))
}

// submitJob returns what submits a job. retryOf is the ended job that it tries again, if it does.
func (h *Handler) submitJob(c SubmitJob, retryOf events.ID) work.Decide {
	spec, turnOf := namedRepo(c.Spec, c.RepoName), h.Views.Turn(c.Workspace, c.Actor.ID, c.Spec)
	return work.On(c.Job, func(w *work.Unit, job *farm.Job) ([]events.Event, error) {
		fairKey, turn, err := turnOf(w.Context())
		if err != nil {
			return nil, err
		}
		w.Answer = JobAnswer{Job: c.Job}
		return job.Submit(events.JobSubmitted{
			Spec: spec, Requirement: spec.Required().Key(), FairKey: fairKey, Turn: turn,
			ExpiresAt: w.Now.Add(time.Duration(spec.Timeouts.QueueSeconds) * time.Second), RetryOf: retryOf,
		})
	})
}

// RetryJob submits a job that has ended once more, as a new job.
type RetryJob struct {
	Meta  `json:"-"`
	Job   events.ID          `json:"jobId"`
	New   events.ID          `json:"-"` // id of the new job
	Token events.Fingerprint `json:"-"` // as in [SubmitJob]
}

func (c RetryJob) denial() events.CommandDenied { return denialOf(events.JobSubmitted{}, c.Job) }
func (RetryJob) limit() *limit                  { return byVolume }

// RetryJob refuses a job that has not ended, a job of a run, and callers who may not run jobs. The specification is read
// from the log, as by [Handler.Delivery], and the new job builds the commit that the ended one has built.
func (h *Handler) RetryJob(ctx context.Context, c RetryJob) (Result, error) {
	var submit work.Decide // once: a turn counts the size of its specification
	return h.Execute(ctx, c.Meta, c, ifMayRunJobs(c.Token, func(w *work.Unit) error {
		if err := work.Inspect(w, c.Job, (*farm.Job).CanRetry); err != nil {
			return err
		}
		if submit == nil {
			job, err := readJob(w.Context(), w.Streams, w.Meta.Workspace, c.Job)
			if err != nil {
				return err
			}
			again := SubmitJob{Meta: c.Meta, Job: c.New}
			if again.Spec, err = farm.CheckJob(job.spec); err != nil { // the rules may be stricter since
				return err
			}
			if again.RepoName, err = h.JobRepo(w.Context(), c.Workspace, again.Spec); err != nil {
				return err
			}
			submit = h.submitJob(again, c.Job)
		}
		return submit(w)
	}))
}

// JobRepo returns the present name of the repository of a new job, empty if it has none. It refuses one that is not the
// workspace's.
func (h *Handler) JobRepo(ctx context.Context, workspace events.ID, spec events.JobSpec) (name string, err error) {
	if spec.Repo == nil {
		return "", nil
	}
	repo, _, ok, err := h.RepoOf(ctx, workspace, spec.Repo.ID)
	if err == nil && (!ok || spec.Repo.ID.IsZero()) {
		err = fault.Field("repo.id", "must be a repository of the workspace")
	}
	return repo.Name, err
}

// namedRepo returns a spec whose repository, if it has one, has a name.
func namedRepo(spec events.JobSpec, name string) events.JobSpec {
	if spec.Repo != nil && name != "" {
		repo := *spec.Repo
		repo.Name = name
		spec.Repo = &repo
	}
	return spec
}

// CancelJob cancels a job, at once if no runner has it.
type CancelJob struct {
	Meta   `json:"-"`
	Job    events.ID          `json:"jobId"`
	Reason string             `json:"reason"`
	Grace  *int               `json:"graceSeconds,omitempty"` // nil: the job's own
	Token  events.Fingerprint `json:"-"`
}

func (c CancelJob) denial() events.CommandDenied { return denialOf(events.JobCancelled{}, c.Job) }
func (CancelJob) limit() *limit                  { return ending }

// CancelJob refuses callers who may not run jobs. It does nothing if the job has ended.
func (h *Handler) CancelJob(ctx context.Context, c CancelJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, ifMayRunJobs(c.Token,
		onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
			return j.Cancel(c.Reason, c.Grace, w.Now)
		})))
}

// ifMayRunJobs returns decide for actors who may run jobs: a person needs the right, a service account
// the scope and token as its current token. The service itself may cancel jobs that no runner can run.
func ifMayRunJobs(token events.Fingerprint, decide work.Decide) work.Decide {
	return func(w *work.Unit) (err error) {
		switch w.Meta.Actor.Type {
		case events.BySystem:
		case events.ByService:
			err = work.Inspect(w, w.Meta.Actor.ID, func(a *aggregates.ServiceAccount) error { return a.Allow(token, events.SubmitJobs) })
		default:
			err = allow(w, events.RunJobs)
		}
		if err != nil {
			return err
		}
		return decide(w)
	}
}

// onJob is work.On for a job. It releases the job's slot of a concurrency key when no runner has
// the job any more.
func onJob(id events.ID, decide func(*work.Unit, *farm.Job) ([]events.Event, error)) work.Decide {
	return work.On(id, func(w *work.Unit, job *farm.Job) ([]events.Event, error) {
		key, slot, held := job.Slot()
		list, err := decide(w, job)
		if err == nil && held && events.LeavesRunner(list) {
			w.Release(events.Claim{Key: events.ConcurrencyKey(key, slot), Owner: id})
		}
		return list, err
	})
}

// AcceptJob records that the runner accepts a lease.
type AcceptJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
}

// AcceptJob refuses a runner that does not have the job in that epoch, as do the commands
// below.
func (h *Handler) AcceptJob(ctx context.Context, c AcceptJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.Accept(c.Runner, c.Epoch, w.Now)
	}))
}

// DeclineJob puts a leased job back into the queue.
type DeclineJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Reason string
}

// DeclineJob does nothing once the job was accepted. A runner with a limited number of jobs
// may then take another one, unless it did not answer: it may have started the job.
func (h *Handler) DeclineJob(ctx context.Context, c DeclineJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		runner, err := boundedRunner(w, c.Runner) // locked before the job, in the same order as for a lease
		if err != nil {
			return err
		}
		var declined bool
		err = onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
			list, err := j.Decline(c.Runner, c.Epoch, c.Reason, w.Now)
			declined = len(list) > 0
			return list, err
		})(w)
		if err != nil || runner == nil || !declined || c.Reason == farm.NoAnswer {
			return err
		}
		list, err := runner.Return(c.Job)
		return w.AddEvents(c.Runner, list, err)
	})
}

// boundedRunner returns a runner whose number of jobs is limited, or nil if it is not.
func boundedRunner(w *work.Unit, id events.ID) (*farm.Runner, error) {
	bounded, err := factOf(w, id, func(r *farm.Runner) bool {
		_, bounded := r.JobsLeft()
		return bounded
	})
	if err != nil || !bounded {
		return nil, err
	}
	return work.Load[farm.Runner](w, id)
}

// ReportJob records a runner's report about a job.
type ReportJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Report farm.JobReport
}

// ReportJob does nothing if the report was recorded before.
func (h *Handler) ReportJob(ctx context.Context, c ReportJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.Report(c.Runner, c.Report, w.Now)
	}))
}

// LoseLease takes a job from a runner whose lease has expired. The lease has been fenced
// before, so the runner cannot renew it any more.
type LoseLease struct {
	Meta
	Job   events.ID
	Epoch int
}

// LoseLease does nothing if the runner does not have the job any more.
func (h *Handler) LoseLease(ctx context.Context, c LoseLease) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.LoseLease(c.Epoch, w.Now)
	}))
}

// TimeOutJob applies the time limits of a job. Silent means that the job's runner has not
// been heard of for longer than a cancelled job waits for it.
type TimeOutJob struct {
	Meta
	Job    events.ID
	Silent bool
}

// TimeOutJob does nothing if no limit is exceeded.
func (h *Handler) TimeOutJob(ctx context.Context, c TimeOutJob) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.TimeOut(w.Now, c.Silent)
	}))
}

// SealJobLog records that the log of an epoch is final, and whether it is what the runner has sent.
type SealJobLog struct {
	Meta
	Job    events.ID
	Stored farm.StoredLog
}

// SealJobLog refuses the log of an epoch that has not ended.
func (h *Handler) SealJobLog(ctx context.Context, c SealJobLog) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(_ *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.SealLog(c.Stored)
	}))
}
