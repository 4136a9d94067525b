package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/events"
)

// A Delivery is a job that a runner has to be told of.
type Delivery struct {
	Job     events.ID
	Epoch   int
	Attempt int
	State   events.JobState // leased or cancelling
	Spec    events.JobSpec  // with the commit that its ref was when it was first checked out
	Suits   bool            // the runner has what the job requires
	Barred  string          // a secret of the job whose scope does not include it, or ""
}

// Delivery returns a job that was leased to a runner and not accepted, or nil if there is none. It is read
// from the log, which authenticates its events, and not from views, because what it contains runs on the runner's
// machine: somebody with access to the database alone can change rows.
func (h *Handler) Delivery(ctx context.Context, workspace, runner, id events.ID) (*Delivery, error) {
	d, err := h.leasedJob(ctx, workspace, runner, id)
	if d == nil || err != nil {
		return d, err
	}
	err = read(ctx, h, workspace, runner, func(r *aggregates.Runner) {
		d.Suits = d.Spec.Required().Met(r.Labels(), r.ExclusiveLabels())
	})
	if err != nil {
		return nil, fmt.Errorf("load runner %s: %w", runner, err)
	}
	if len(d.Spec.Secrets) == 0 {
		return d, nil
	}
	err = read(ctx, h, workspace, events.FarmSecretStream, func(s *aggregates.FarmSecrets) { d.Barred = s.Barred(d.Spec) })
	if err != nil {
		return nil, fmt.Errorf("look up the scopes of secrets of %s: %w", workspace, err)
	}
	return d, nil
}

// leasedJob is Delivery without Suits and Barred.
func (h *Handler) leasedJob(ctx context.Context, workspace, runner, id events.ID) (*Delivery, error) {
	var job aggregates.Job
	d := &Delivery{Job: id}
	for r, err := range events.ReadStream(ctx, h.log, workspace, id) {
		if err != nil {
			return nil, fmt.Errorf("load job %s: %w", id, err)
		}
		d.Spec = specAfter(d.Spec, r.Event)
		job.Apply(r.Event, r.Actor)
	}
	var waits bool
	if d.Epoch, d.Attempt, waits = job.Unaccepted(runner); !waits {
		return nil, nil
	}
	d.State = job.State()
	return d, nil
}
