package door

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"svc/fault"
	"svc/projections/fold"
)

// awaitPosition waits until the views have reached X-Svc-Min-Position, which is text, so that a caller reads its own
// writes. Only requests that have to wait acquire a slot.
func (d *Door) awaitPosition(r *http.Request, text string, views []string, c *Caller) error {
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return fault.Field("X-Svc-Min-Position", "must be a position: 0 or more")
	}
	awaiter := d.Replica
	c.waitUntil = time.Now().Add(fold.AwaitTimeout)
	if views == nil {
		awaiter, views = d.Primary, []string{""}
	} else {
		c.Position = seq
	}
	var behind []string
	for _, view := range views {
		switch reached, err := awaiter.Reached(r.Context(), view, c.Workspace, seq); {
		case err != nil:
			return err
		case !reached:
			behind = append(behind, view)
		}
	}
	if behind == nil {
		return nil
	}
	slot, err := d.Acquire(r.Context(), d.Bounds.positions, c)
	if err != nil {
		return err
	}
	defer slot.Release()
	for _, view := range behind {
		if err := awaiter.Await(r.Context(), view, c.Workspace, seq); err != nil {
			return err
		}
	}
	c.FoundAt = time.Time{} // what was waited for may be the end of the caller's rights
	return nil
}

// readReached calls read, and again while the server that answers has not reached the position that the
// request requires: the one that was asked by awaitPosition may be another. Meanwhile the request holds a
// slot of the positions instead of its read slot.
func readReached[O any](ctx context.Context, d *Door, read func() (*O, error)) (*O, error) {
	out, err := read()
	c := CallerOf(ctx)
	if c.Position == 0 || !errors.Is(err, fold.ErrNotCaughtUp) {
		return out, err
	}
	c.ReleaseSlots()
	slot, err := d.Acquire(ctx, d.Bounds.positions, c)
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	limited, cancel := context.WithDeadline(ctx, c.waitUntil)
	defer cancel()
	out, err = fold.RetryBehind(limited, func() (*O, error) {
		if err := d.HoldSlot(ctx, d.Bounds.reads, c); err != nil {
			return nil, err
		}
		out, err := read()
		if errors.Is(err, fold.ErrNotCaughtUp) {
			c.ReleaseSlots()
		}
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return out, d.Recheck(ctx, c) // what was waited for may be the end of the caller's rights
}
