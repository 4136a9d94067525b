package work

import (
	"context"
	"errors"
	"time"

	"svc/events"
	"svc/fault"
)

// Counts counts for all processes together how often something was done on a day. The
// subject is a person, or stands for whatever else has a quota.
type Counts interface {
	// Take adds one. ok is false, and nothing is added, if the count has reached most.
	Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (ok bool, err error)
	// GiveBack subtracts one.
	GiveBack(ctx context.Context, subject events.ID, what string, day time.Time) error
}

// A Charge is one of something that may be done only so often in a day. Days begin at midnight UTC.
type Charge struct {
	Subject events.ID // whose quota it is
	What    string
	Most    int    // in a day; 0: without end
	Refusal string // format of the message, with Most
}

// Meter sets what is charged for a person's commands, given the events that they will append, and where it is counted.
// Call it before the first command.
func (x *Executor) Meter(counts Counts, charges func(m Meta, request any, decided []events.Event) []Charge) {
	x.counts, x.charges = counts, charges
}

type charge struct {
	Charge
	reserved bool
}

const tomorrow = " The next day begins at midnight UTC."

// reserve counts the charges after the command has decided and before it is stored, so that
// commands refused for other reasons count for nothing. They stay counted if the command
// decides again.
func (w *Unit) reserve(writes []events.Write) error {
	if !w.charged && w.executor.counts != nil && w.Meta.Actor.Type == events.ByUser {
		var list []events.Event
		for _, write := range writes {
			list = append(list, write.Events...)
		}
		w.charged, w.day = true, w.exactNow.UTC().Truncate(24*time.Hour)
		for _, c := range w.executor.charges(w.Meta, w.request, list) {
			if c.Most > 0 {
				w.charges = append(w.charges, &charge{Charge: c})
			}
		}
	}
	for _, c := range w.charges {
		if c.reserved {
			continue
		}
		if err := w.count(c); err != nil {
			return err
		}
		if !c.reserved {
			wait := w.day.Add(24 * time.Hour).Sub(w.exactNow)
			return fault.New(fault.RateLimited, "rate_limited", c.Refusal+tomorrow, c.Most).After(wait)
		}
	}
	return w.ctx.Err()
}

// countTimeout is the time limit of an operation on Counts.
const countTimeout = 2 * time.Second

// count continues if the caller goes away: a cancelled operation may have been carried out,
// and would never be given back.
func (w *Unit) count(c *charge) (err error) {
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), countTimeout)
	defer cancel()
	c.reserved, err = w.executor.counts.Take(within, c.Subject, c.What, w.day, c.Most)
	return err
}

// settle gives charges back if the command failed or was a repetition. A process that dies
// first leaves one too many counted, until the day ends.
func (w *Unit) settle(ctx context.Context, done Result, err error) {
	if err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	for _, c := range w.charges {
		if c.reserved {
			// An error is ignored: the command has its answer, and one too many stays counted until midnight.
			_ = w.executor.counts.GiveBack(ctx, c.Subject, c.What, w.day)
		}
	}
}
