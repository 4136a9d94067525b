package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
)

// Daily is how much may be done in a day of what reaches others or stays for ever:
// by a person or, for invitations, to an address. A day begins at midnight UTC.
// 0 is no bound, and the zero Daily has none.
type Daily struct {
	Workspaces          int // made
	ServiceAccounts     int // made, in all workspaces
	Invitations         int // sent, or sent again
	InvitationsReceived int // by an address, of all workspaces
	Counts              Counts
}

// Counts keeps how often something was done on a day, by a person or to an address
// that the subject stands for, for all processes together.
type Counts interface {
	// Take counts one more. ok is false if there are most already.
	Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (ok bool, err error)
	// GiveBack counts one less.
	GiveBack(ctx context.Context, subject events.ID, what string, day time.Time) error
}

// Limit holds people to daily bounds. Call it before the first command.
func (h *Handler) Limit(d Daily) { h.daily = d }

// A charge is what one command takes of somebody's quota: one more of what.
type charge struct {
	subject events.ID // a person, or an address
	limit   int       // 0: no bound
	what    string
	refusal string // says limit

	reserved bool
}

const tomorrow = " The next day begins at midnight UTC."

// charges are what a command takes that a person has given and that has come to
// these events. They are all of the daily bounds.
//
// What changes a workspace that is there, such as renaming it, has none: it keeps
// nothing outside of that workspace's log, and the limit of requests is one of that.
func (d Daily) charges(person events.ID, request any, list []events.Event) (out []*charge) {
	switch request.(type) {
	case CreateWorkspace:
		out = append(out, &charge{subject: person, limit: d.Workspaces, what: "workspaces",
			refusal: "You have made %d workspaces today, as many as a person may in a day."})
	case CreateServiceAccount:
		out = append(out, &charge{subject: person, limit: d.ServiceAccounts, what: "service accounts",
			refusal: "You have made %d service accounts today, as many as a person may in a day."})
	case SendInvitation, ResendInvitation:
		out = append(out, &charge{subject: person, limit: d.Invitations, what: "invitations",
			refusal: "You have sent %d invitations today, as many as a person may in a day."})
	}
	for _, e := range list {
		var address string
		switch e := e.(type) {
		case events.InvitationSent:
			address = e.Email
		case events.InvitationResent:
			address = e.Email
		default:
			continue
		}
		out = append(out, &charge{subject: addressID(address), limit: d.InvitationsReceived, what: "invitations received",
			refusal: "This address has been sent %d invitations today, as many as an address may be in a day."})
	}
	return slices.DeleteFunc(out, func(c *charge) bool { return c.limit == 0 })
}

// addressID is what an address is counted under: its account need not exist, and
// may have others.
func addressID(address string) events.ID {
	sum := sha256.Sum256([]byte(events.EmailKey(address)))
	return events.ID(sum[:len(events.ID{})])
}

// A quota is what one command reserves of the daily bounds.
type quota struct {
	daily   Daily
	actor   events.Actor
	request any

	decided bool
	charges []*charge
	day     time.Time
}

func (h *Handler) quotaOf(m Meta, request any) *quota {
	return &quota{daily: h.daily, actor: m.Actor, request: request}
}

// reserve is called when the command is decided and about to be stored, so that what
// is refused for another reason counts for nothing. A command that is decided again
// has reserved already.
func (q *quota) reserve(ctx context.Context, at time.Time, writes []events.Write) error {
	if !q.decided && q.daily.Counts != nil && q.actor.Type == events.ByUser {
		var list []events.Event
		for _, w := range writes {
			list = append(list, w.Events...)
		}
		q.decided, q.day = true, at.UTC().Truncate(24*time.Hour)
		q.charges = q.daily.charges(q.actor.ID, q.request, list)
	}
	for _, c := range q.charges {
		if c.reserved {
			continue
		}
		if err := q.count(ctx, c); err != nil {
			return err
		}
		if !c.reserved {
			wait := q.day.Add(24 * time.Hour).Sub(at)
			return fault.New(fault.RateLimited, "rate_limited", c.refusal+tomorrow, c.limit).After(wait)
		}
	}
	return ctx.Err()
}

// countLimit is how long a count may take.
const countLimit = 2 * time.Second

// count goes on if the caller goes away meanwhile: a count that is broken off may
// have been made, and nobody would know to give it back.
func (q *quota) count(ctx context.Context, c *charge) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), countLimit)
	defer cancel()
	c.reserved, err = q.daily.Counts.Take(within, c.subject, c.what, q.day, c.limit)
	return err
}

// settle gives back what was reserved for a command that came to nothing. A process
// that dies before counts one too many, which lasts for a day at most.
func (q *quota) settle(ctx context.Context, done Result, err error) {
	if err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countLimit)
	defer cancel()
	for _, c := range q.charges {
		if c.reserved {
			_ = q.daily.Counts.GiveBack(ctx, c.subject, c.what, q.day) // then one too many is counted
		}
	}
}
