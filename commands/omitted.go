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
	omittedInterval    = time.Minute     // between two recordings
	omittedTimeout     = 5 * time.Second // for one recording
	omittedConcurrency = 8               // concurrent appends
	maxOmitted         = 1000            // actors that are counted separately; and as many workspaces in which the other actors are
)

// An omission says how many denials of an actor were not recorded.
type omission struct {
	actor        events.Actor
	count        int64
	since, until time.Time
}

// omitted counts the denials since the last recording that were not recorded. If there are
// too many actors, further ones are counted together for their workspace; if there are too
// many workspaces, further ones are counted under the zero key.
type omitted map[denialSubject]omission

func (list omitted) add(by denialSubject, o omission) {
	if _, known := list[by]; !known && len(list) >= maxOmitted {
		by, o.actor = denialSubject{workspace: by.workspace}, events.Actor{Type: events.BySystem, Name: "others"}
	}
	if _, known := list[by]; !known && len(list) >= 2*maxOmitted {
		by = denialSubject{}
	}
	if before, known := list[by]; known {
		o.count, o.since = o.count+before.count, before.since
		if before.until.After(o.until) {
			o.until = before.until
		}
	}
	list[by] = o
}

// Run records the number of omitted denials regularly until ctx ends, and then once more.
// Without it they are only counted.
func (h *Handler) Run(ctx context.Context) {
	every := time.NewTicker(omittedInterval)
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

// recordOmitted appends an event for each actor with omitted denials. A failed append is
// retried at the next recording, unless its outcome is unknown.
func (h *Handler) recordOmitted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, omittedTimeout)
	defer cancel()
	d := h.denied
	d.mu.Lock()
	list := d.omitted
	d.omitted = omitted{}
	d.mu.Unlock()
	if o, some := list[denialSubject{}]; some {
		delete(list, denialSubject{})
		h.logger.WarnContext(ctx, "refusals in too many workspaces at once: some are not counted",
			"denials", o.count, "since", o.since, "until", o.until)
	}
	var group errgroup.Group
	group.SetLimit(omittedConcurrency)
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
		h.logger.WarnContext(ctx, "record how many refusals were omitted", "denials", failed.Load(), "err", err)
	}
}

func (h *Handler) appendOmitted(ctx context.Context, workspace events.ID, o omission) error {
	now := h.now()
	_, err := h.log.Append(ctx, &events.Commit{
		Workspace: workspace, Envelope: events.Envelope{Actor: o.actor, Origin: events.FromSystem}, At: now,
		Writes: []events.Write{{Stream: events.NewID(now), Events: []events.Event{
			events.CommandDenialsOmitted{
				Count: o.count, Since: o.since.UTC().Truncate(time.Millisecond), Until: o.until.UTC().Truncate(time.Millisecond),
			},
		}}},
	})
	return err
}
