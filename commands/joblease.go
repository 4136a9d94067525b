package commands

import (
	"context"
	"crypto/sha256"
	"fmt"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
)

// LeaseJob gives a job to a runner. Slot is a free slot of the job's concurrency key, 0 if
// it has none.
type LeaseJob struct {
	Meta
	Job    events.ID
	Runner events.ID
	Slot   int
}

// SubmitterNotAllowed is the reason for cancelling a waiting job whose submitter has left the
// workspace, lost the right to run jobs, or is a service account that was revoked, or whose workspace was deleted.
const SubmitterNotAllowed = "submitter_not_allowed"

// LeaseJob refuses a job that another runner has, and a runner that takes no jobs, as of
// the moment at which the lease is stored. If two processes lease the same job, one is
// refused. A runner with a limited number of jobs counts the job. A job whose submitter could
// not submit it any more is cancelled instead, with [farm.ErrJobDropped].
func (h *Handler) LeaseJob(ctx context.Context, c LeaseJob) (Result, error) {
	var dropped bool
	done, err := h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		may, err := submitterMayRun(w, c.Job)
		if err != nil {
			return err
		}
		if dropped = !may; dropped {
			return dropJob(w, c.Job)
		}
		return h.leaseJob(w, c)
	})
	if err == nil && dropped {
		err = farm.ErrJobDropped // only now: the cancellation has been stored
	}
	return done, err
}

// leaseJob adds the lease, and what the runner and the concurrency key count.
func (h *Handler) leaseJob(w *work.Unit, c LeaseJob) error {
	name, err := takeRunner(w, c.Runner, c.Job)
	if err != nil {
		return err
	}
	lease := onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		if err := h.takeSlot(w, c, j); err != nil {
			return nil, err
		}
		return j.Lease(c.Runner, name, c.Slot, w.Now)
	})
	return lease(w)
}

// dropJob cancels a waiting job whose submitter may not run jobs any more.
func dropJob(w *work.Unit, id events.ID) error {
	j, err := work.Load[farm.Job](w, id)
	if err != nil {
		return err
	}
	if j.State() != events.JobStateQueued {
		return farm.ErrJobTaken
	}
	list, err := j.Cancel(SubmitterNotAllowed, nil, w.Now)
	return w.AddEvents(id, list, err)
}

// submitterMayRun reports whether the submitter of a job may still run jobs. What the service
// itself submitted it may run until the workspace is deleted.
func submitterMayRun(w *work.Unit, job events.ID) (may bool, err error) {
	by, err := factOf(w, job, (*farm.Job).Submitter)
	if err != nil {
		return false, err
	}
	may, err = factOf(w, w.Meta.Workspace, func(ws *aggregates.Workspace) bool {
		return !ws.Deleted() && (by.Type != events.ByUser || ws.Allow(by.ID, events.RunJobs) == nil)
	})
	if err == nil && may && by.Type == events.ByService {
		may, err = factOf(w, by.ID, func(a *aggregates.ServiceAccount) bool { return a.May(events.SubmitJobs) })
	}
	return may, err
}

// slots is the type in the fold keys that serialize leases of a concurrency key.
type slots struct{}

// takeSlot claims the slot of a job that has a concurrency key.
func (h *Handler) takeSlot(w *work.Unit, c LeaseJob, j *farm.Job) error {
	key, limit, ok := j.Concurrency()
	switch {
	case !ok || j.State() != events.JobStateQueued:
		return nil
	case c.Slot < 1 || c.Slot > limit:
		return fmt.Errorf("lease job %s: slot %d of %d", c.Job, c.Slot, limit)
	}
	sum := sha256.Sum256([]byte(key))
	if err := work.Serialize[slots](w, events.ID(sum[:16])); err != nil {
		return err
	}
	use, err := h.Views.KeyUse(w.Context(), w.Meta.Workspace, key)
	switch {
	case err != nil:
		return fmt.Errorf("lease job %s: %w", c.Job, err)
	case use.Full(limit):
		return farm.ErrJobTaken
	}
	w.Claim(events.Claim{Key: events.ConcurrencyKey(key, c.Slot), Owner: c.Job}, farm.ErrJobTaken)
	return nil
}

// takeRunner checks that a runner may take a job, counts the job if the runner's number of
// jobs is limited, and returns the runner's name.
func takeRunner(w *work.Unit, id, job events.ID) (name string, err error) {
	var bounded bool
	err = work.Inspect(w, id, func(r *farm.Runner) error {
		name = r.Name()
		_, bounded = r.JobsLeft()
		return r.MayTake()
	})
	if err != nil || !bounded {
		return name, err
	}
	runner, err := work.Load[farm.Runner](w, id)
	if err != nil {
		return "", err
	}
	list, err := runner.Take(job)
	return name, w.AddEvents(id, list, err)
}
