package door

import (
	"context"

	"svc/http/fair"
)

// AcquireSlot acquires a slot for the caller of ctx, which holds it until the answer is written. The
// caller's rights are checked again if it had to wait.
func (d *Door) AcquireSlot(ctx context.Context, semaphore *fair.Semaphore) error {
	c := CallerOf(ctx)
	if err := d.HoldSlot(ctx, semaphore, c); err != nil {
		return err
	}
	return d.RecheckIfStale(ctx, c)
}

// HoldSlot acquires a slot for c, which holds it until the answer is written.
func (d *Door) HoldSlot(ctx context.Context, semaphore *fair.Semaphore, c *Caller) error {
	h, err := d.holder(ctx, c)
	if err != nil {
		return err
	}
	slot, err := semaphore.Acquire(ctx, h)
	if err == nil {
		c.slots = append(c.slots, slot)
	}
	return err
}

// Acquire acquires a slot for c, which the handler releases.
func (d *Door) Acquire(ctx context.Context, semaphore *fair.Semaphore, c *Caller) (*fair.Slot, error) {
	h, err := d.holder(ctx, c)
	if err != nil {
		return nil, err
	}
	return semaphore.Acquire(ctx, h)
}

// holder returns whose share a caller's slots count against: the workspace's, and the person's or,
// for a service account, that of the person who issued its token. A person with many workspaces and
// accounts has one share, and nobody can use up the share of somebody else by inviting them.
func (d *Door) holder(ctx context.Context, c *Caller) (fair.Holder, error) {
	h := fair.Holder{Caller: c.Envelope.Actor.ID, Workspace: c.Workspace}
	if c.Person != nil {
		h.Person = c.Person.User
		return h, nil
	}
	person, ok := d.issuers.Get(c.Token.Fingerprint)
	if !ok {
		var err error
		if person, err = d.ServiceAccounts.Issuer(ctx, c.Token.Workspace, c.Token.Account); err != nil {
			return h, err
		}
		d.issuers.Add(c.Token.Fingerprint, person)
	}
	h.Person = person
	return h, nil
}
