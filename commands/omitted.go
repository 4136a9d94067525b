package commands

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"svc/events"
)

const (
	omittedEvery  = time.Minute     // they are recorded
	omittedLimit  = 5 * time.Second // that recording them may take
	omittedAtOnce = 8               // appends under way
	maxOmitted    = 1000            // people and workspaces who are counted by themselves, and as many workspaces for all the others
)

// An omission is how many denials of somebody were left out.
type omission struct {
	actor        events.Actor
	count        int64
	since, until time.Time
}

// omitted counts the denials that were left out since it was last recorded how
// many. Those of too many people at once count for their workspace, and those in
// too many workspaces for nobody.
type omitted map[denied]omission

func (list omitted) add(by denied, o omission) {
	if _, known := list[by]; !known && len(list) >= maxOmitted {
		by, o.actor = denied{workspace: by.workspace}, events.Actor{Type: events.BySystem, Name: "others"}
	}
	if _, known := list[by]; !known && len(list) >= 2*maxOmitted {
		by = denied{}
	}
	if before, known := list[by]; known {
		o.count, o.since = o.count+before.count, before.since
		if before.until.After(o.until) {
			o.until = before.until
		}
	}
	list[by] = o
}

// Run records again and again how many denials were left out, until ctx ends, and
// then once more. Without it they are counted only.
func (h *Handler) Run(ctx context.Context) {
	every := time.NewTicker(omittedEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			h.recordOmitted(context.WithoutCancel(ctx))
			return
		case <-every.C:
			h.recordOmitted(ctx)
		}
	}
}

// recordOmitted appends an event for each who was denied more than was recorded.
// What cannot be appended waits for the next time, unless it may have been.
func (h *Handler) recordOmitted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, omittedLimit)
	defer cancel()
	d := h.denied
	d.mu.Lock()
	list := d.omitted
	d.omitted = omitted{}
	d.mu.Unlock()
	if o, some := list[denied{}]; some {
		delete(list, denied{})
		h.logger.WarnContext(ctx, "denials in too many workspaces at once: left out without a record",
			"denials", o.count, "since", o.since, "until", o.until)
	}
	var group errgroup.Group
	group.SetLimit(omittedAtOnce)
	var failed atomic.Int64
	for by, o := range list {
		group.Go(func() error {
			err := h.appendOmitted(ctx, by.workspace, o)
			if err != nil {
				failed.Add(o.count)
			}
			if err != nil && !errors.Is(err, events.ErrOutcomeUnknown) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.omitted.add(by, o)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		h.logger.WarnContext(ctx, "record how many denials were left out", "denials", failed.Load(), "err", err)
	}
}

func (h *Handler) appendOmitted(ctx context.Context, workspace events.ID, o omission) error {
	now := h.now()
	_, err := h.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: events.Envelope{Actor: o.actor, Origin: events.FromSystem}, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{
			events.CommandDenialsOmitted{
				Count: o.count, Since: o.since.UTC().Truncate(time.Microsecond), Until: o.until.UTC().Truncate(time.Microsecond),
			},
		}}},
	})
	return err
}
