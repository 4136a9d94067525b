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

// A meter says what is charged for a command, and counts it.
type meter struct {
	counts  Counts
	charges func(m Meta, request any, decided []events.Event) []Charge
}

// A quota holds what is charged for one command.
type quota struct {
	meter
	request any

	decided bool
	charges []*charge
	day     time.Time
}

type charge struct {
	Charge
	reserved bool
}

// countTimeout is the time limit of an operation on Counts.
const countTimeout = 2 * time.Second

const tomorrow = " The next day begins at midnight UTC."

// reserve counts the charges after the command has decided and before it is stored, so that
// commands refused for other reasons count for nothing. They stay counted if the command
// decides again.
func (q *quota) reserve(ctx context.Context, m Meta, at time.Time, writes []events.Write) error {
	if !q.decided && q.counts != nil && m.Actor.Type == events.ByUser {
		var list []events.Event
		for _, write := range writes {
			list = append(list, write.Events...)
		}
		q.decided, q.day = true, at.UTC().Truncate(24*time.Hour)
		for _, c := range q.meter.charges(m, q.request, list) {
			if c.Most > 0 {
				q.charges = append(q.charges, &charge{Charge: c})
			}
		}
	}
	for _, c := range q.charges {
		if c.reserved {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// A cancelled count may have been carried out, and would never be given back, so it continues if the caller goes away.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		var err error
		c.reserved, err = q.counts.Take(within, c.Subject, c.What, q.day, c.Most)
		cancel()
		if err != nil {
			return err
		}
		if !c.reserved {
			wait := q.day.Add(24 * time.Hour).Sub(at)
			return fault.New(fault.RateLimited, "rate_limited", c.Refusal+tomorrow, c.Most).After(wait)
		}
	}
	return ctx.Err()
}

// settle gives charges back if the command failed or was a repetition. A process that dies
// first leaves one too many counted, until the day ends.
func (q *quota) settle(ctx context.Context, done Result, err error) {
	if err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	for _, c := range q.charges {
		if c.reserved {
			// An error is ignored: the command has its answer, and one too many stays counted until midnight.
			_ = q.counts.GiveBack(ctx, c.Subject, c.What, q.day)
		}
	}
}
