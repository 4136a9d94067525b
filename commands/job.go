package commands

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"time"

	"svc/aggregates"
	"svc/events"
)

// SubmitJob asks the build farm for a job. Spec is as [aggregates.CheckJob] returns it.
// Turn tells its place in the queue, or why it may not have one; it is asked when the job
// is neither a repetition nor refused.
type SubmitJob struct {
	Meta    `json:"-"`
	Job     events.ID                            `json:"-"`
	Spec    events.JobSpec                       `json:"spec"`
	FairKey string                               `json:"-"`
	Turn    func(context.Context) (int64, error) `json:"-"`
	Token   events.Fingerprint                   `json:"-"` // that a service account showed
}

func (c SubmitJob) denial() events.CommandDenied {
	e := denialOf(events.JobSubmitted{}, events.ID{})
	e.Name = c.Spec.Name
	return e
}

// A JobAnswer is what is kept of a command that submitted a job, for its repetition.
type JobAnswer struct {
	Job events.ID `json:"jobId"`
}

// SubmitJob refuses whoever may not run jobs.
func (h *Handler) SubmitJob(ctx context.Context, c SubmitJob) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allowJobs(c.Token); err != nil {
			return err
		}
		job, err := load[aggregates.Job](w, c.Job)
		if err != nil {
			return err
		}
		turn, err := c.Turn(w.ctx)
		if err != nil {
			return err
		}
		w.answer = JobAnswer{Job: c.Job}
		list, err := job.Submit(events.JobSubmitted{
			Spec: c.Spec, Requirement: c.Spec.Required().Key(), FairKey: c.FairKey, Turn: turn,
			ExpiresAt: w.at.Add(time.Duration(c.Spec.Timeouts.QueueSeconds) * time.Second),
		})
		return w.then(c.Job, list, err)
	})
}

// CancelJob ends a job: at once if no runner has it.
type CancelJob struct {
	Meta   `json:"-"`
	Job    events.ID          `json:"jobId"`
	Reason string             `json:"reason"`
	Grace  *int               `json:"graceSeconds,omitempty"` // nil: that of the job
	Token  events.Fingerprint `json:"-"`
}

func (c CancelJob) denial() events.CommandDenied { return denialOf(events.JobCancelled{}, c.Job) }

// CancelJob refuses whoever may not run jobs. A job that is over stays as it is.
func (h *Handler) CancelJob(ctx context.Context, c CancelJob) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allowJobs(c.Token); err != nil {
			return err
		}
		return w.job(c.Job, func(j *aggregates.Job) ([]events.Event, error) { return j.Cancel(c.Reason, c.Grace, w.at) })
	})
}

// allowJobs refuses a person whose role does not let them run jobs, and a service account
// without the scope, or whose token is no longer the one that was shown. The service ends
// by itself a job that no runner can run.
func (w *work) allowJobs(token events.Fingerprint) error {
	if w.meta.Actor.Type == events.BySystem {
		return nil
	}
	if w.meta.Actor.Type != events.ByService {
		return w.allow(events.RunJobs)
	}
	return look(w, w.meta.Actor.ID, func(a *aggregates.ServiceAccount) error { return a.Allow(token, events.SubmitJobs) })
}

// job lets decide say what becomes of a job. Its slot of a concurrency key is free when no
// runner has it any more.
func (w *work) job(id events.ID, decide func(*aggregates.Job) ([]events.Event, error)) error {
	job, err := load[aggregates.Job](w, id)
	if err != nil {
		return err
	}
	key, slot, held := job.Slot()
	list, err := decide(job)
	if err := w.then(id, list, err); err != nil {
		return err
	}
	if held && events.LeavesRunner(list) {
		w.releases = append(w.releases, events.Claim{Key: events.ConcurrencyKey(key, slot), Owner: id})
	}
	return nil
}

// LeaseJob gives a job to a runner. Slot is a free one of its concurrency key, 0 if it has none.
// Use says what is in use of that key; it is asked while nobody else is given a job with it.
type LeaseJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Slot   int
	Use    func(ctx context.Context, workspace events.ID, key string) (events.KeyUse, error)
}

// LeaseJob refuses a job that another runner was given, and a runner that takes no jobs:
// each at the moment at which it is stored. Of two who give a job to runners one is
// refused. An ephemeral runner takes no other job.
func (h *Handler) LeaseJob(ctx context.Context, c LeaseJob) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		name, err := w.takeRunner(c.Runner, c.Job)
		if err != nil {
			return err
		}
		return w.job(c.Job, func(j *aggregates.Job) ([]events.Event, error) {
			if err := w.takeSlot(c, j); err != nil {
				return nil, err
			}
			return j.Lease(c.Runner, name, c.Slot, w.at)
		})
	})
}

// slots stands for those of a concurrency key.
type slots struct{}

// takeSlot takes the slot of a job that has a concurrency key.
func (w *work) takeSlot(c LeaseJob, j *aggregates.Job) error {
	key, limit, ok := j.Concurrency()
	switch {
	case !ok || j.State() != events.JobQueued:
		return nil
	case c.Slot < 1 || c.Slot > limit:
		return fmt.Errorf("lease job %s: slot %d of %d", c.Job, c.Slot, limit)
	}
	sum := sha256.Sum256([]byte(key))
	if err := w.serialize(foldKey{w.meta.Workspace, events.ID(sum[:16]), reflect.TypeFor[slots]()}); err != nil {
		return err
	}
	use, err := c.Use(w.ctx, w.meta.Workspace, key)
	switch {
	case err != nil:
		return fmt.Errorf("lease job %s: %w", c.Job, err)
	case use.Full(limit):
		return aggregates.ErrJobTaken
	}
	w.claim(events.Claim{Key: events.ConcurrencyKey(key, c.Slot), Owner: c.Job}, aggregates.ErrJobTaken)
	return nil
}

// takeRunner looks whether a runner may take a job, notes that it does where that counts,
// and returns what it is called.
func (w *work) takeRunner(id, job events.ID) (name string, err error) {
	var bounded bool
	err = look(w, id, func(r *aggregates.Runner) error {
		name = r.Name()
		_, bounded = r.JobsLeft()
		return r.MayTake()
	})
	if err != nil || !bounded {
		return name, err
	}
	runner, err := load[aggregates.Runner](w, id)
	if err != nil {
		return "", err
	}
	list, err := runner.Take(job)
	return name, w.then(id, list, err)
}

// AcceptJob notes that the runner begins a job.
type AcceptJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
}

// AcceptJob refuses a runner that does not have the job in that epoch, as do those below.
func (h *Handler) AcceptJob(ctx context.Context, c AcceptJob) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(w *work, j *aggregates.Job) ([]events.Event, error) {
		return j.Accept(c.Runner, c.Epoch, w.at)
	})
}

// DeclineJob gives a job back to the queue.
type DeclineJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Reason string
}

// DeclineJob does nothing once the job was accepted. A runner that takes only so many jobs may
// take another one instead, but not where it said nothing: then it may have begun.
func (h *Handler) DeclineJob(ctx context.Context, c DeclineJob) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		runner, err := w.boundedRunner(c.Runner) // before the job, as for a lease
		if err != nil {
			return err
		}
		var declined bool
		err = w.job(c.Job, func(j *aggregates.Job) ([]events.Event, error) {
			list, err := j.Decline(c.Runner, c.Epoch, c.Reason, w.at)
			declined = len(list) > 0
			return list, err
		})
		if err != nil || runner == nil || !declined || c.Reason == aggregates.NoAnswer {
			return err
		}
		list, err := runner.Return(c.Job)
		return w.then(c.Runner, list, err)
	})
}

// boundedRunner returns a runner that takes only so many jobs, or nil.
func (w *work) boundedRunner(id events.ID) (*aggregates.Runner, error) {
	var bounded bool
	err := look(w, id, func(r *aggregates.Runner) error {
		_, bounded = r.JobsLeft()
		return nil
	})
	if err != nil || !bounded {
		return nil, err
	}
	return load[aggregates.Runner](w, id)
}

// ReportJob takes in what a runner says of a job.
type ReportJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Report aggregates.JobReport
}

// ReportJob does nothing if it was said before.
func (h *Handler) ReportJob(ctx context.Context, c ReportJob) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(w *work, j *aggregates.Job) ([]events.Event, error) {
		return j.Report(c.Runner, c.Report, w.at)
	})
}

// LoseLease takes a job from a runner whose lease is over. Its lease has been fenced: the
// runner cannot renew it any more.
type LoseLease struct {
	Meta
	Job   events.ID
	Epoch int
}

// LoseLease does nothing if the runner does not have the job any more.
func (h *Handler) LoseLease(ctx context.Context, c LoseLease) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(w *work, j *aggregates.Job) ([]events.Event, error) {
		return j.LoseLease(c.Epoch, w.at)
	})
}

// TimeOutJob does what the clock asks for. Silent tells that the runner of the job was
// not heard for longer than a cancelled job waits for it.
type TimeOutJob struct {
	Meta
	Job    events.ID
	Silent bool
}

// TimeOutJob does nothing if no time is over.
func (h *Handler) TimeOutJob(ctx context.Context, c TimeOutJob) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(w *work, j *aggregates.Job) ([]events.Event, error) {
		return j.TimeOut(w.at, c.Silent)
	})
}

// SealJobLog says that the log of an epoch is whole.
type SealJobLog struct {
	Meta
	Job    events.ID
	Sealed events.JobLogSealed
}

// SealJobLog refuses the log of an epoch that goes on.
func (h *Handler) SealJobLog(ctx context.Context, c SealJobLog) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.SealLog(c.Sealed)
	})
}

// carryJob carries out what happens to one job.
func (h *Handler) carryJob(
	ctx context.Context, m Meta, request any, id events.ID, decide func(*work, *aggregates.Job) ([]events.Event, error),
) (Result, error) {
	return h.carry(ctx, m, request, func(w *work) error {
		return w.job(id, func(j *aggregates.Job) ([]events.Event, error) { return decide(w, j) })
	})
}
