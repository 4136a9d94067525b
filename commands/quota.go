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

// An allowance is what one command takes of somebody's day: one more of what.
type allowance struct {
	subject events.ID // a person, or an address
	most    int       // 0: no bound
	what    string
	refusal string // says most

	taken bool
}

const tomorrow = " The next day begins at midnight UTC."

// allowances are what a command takes that a person has given and that has come to
// these events. They are all of the daily bounds.
//
// What changes a workspace that is there, such as renaming it, has none: it keeps
// nothing outside of that workspace's log, and the limit of requests is one of that.
func (d Daily) allowances(person events.ID, request any, list []events.Event) (out []*allowance) {
	switch request.(type) {
	case CreateWorkspace:
		out = append(out, &allowance{subject: person, most: d.Workspaces, what: "workspaces",
			refusal: "You have made %d workspaces today, as many as a person may in a day."})
	case CreateServiceAccount:
		out = append(out, &allowance{subject: person, most: d.ServiceAccounts, what: "service accounts",
			refusal: "You have made %d service accounts today, as many as a person may in a day."})
	case SendInvitation, ResendInvitation:
		out = append(out, &allowance{subject: person, most: d.Invitations, what: "invitations",
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
		out = append(out, &allowance{subject: addressID(address), most: d.InvitationsReceived, what: "invitations received",
			refusal: "This address has been sent %d invitations today, as many as an address may be in a day."})
	}
	return slices.DeleteFunc(out, func(a *allowance) bool { return a.most == 0 })
}

// addressID is what an address is counted under: its account need not exist, and
// may have others.
func addressID(address string) events.ID {
	sum := sha256.Sum256([]byte(events.EmailKey(address)))
	return events.ID(sum[:len(events.ID{})])
}

// A share is what one command takes of a day.
type share struct {
	daily   Daily
	actor   events.Actor
	request any

	decided bool
	list    []*allowance
	day     time.Time
}

func (h *Handler) shareOf(m Meta, request any) *share {
	return &share{daily: h.daily, actor: m.Actor, request: request}
}

// take is called when the command is decided and about to be stored, so that what
// is refused for another reason counts for nothing. A command that is decided again
// has taken its share already.
func (s *share) take(ctx context.Context, at time.Time, writes []events.Write) error {
	if !s.decided && s.daily.Counts != nil && s.actor.Type == events.ByUser {
		var list []events.Event
		for _, w := range writes {
			list = append(list, w.Events...)
		}
		s.decided, s.day = true, at.UTC().Truncate(24*time.Hour)
		s.list = s.daily.allowances(s.actor.ID, s.request, list)
	}
	for _, a := range s.list {
		if a.taken {
			continue
		}
		if err := s.count(ctx, a); err != nil {
			return err
		}
		if !a.taken {
			wait := s.day.Add(24 * time.Hour).Sub(at)
			return fault.New(fault.RateLimited, "rate_limited", a.refusal+tomorrow, a.most).After(wait)
		}
	}
	return ctx.Err()
}

// countLimit is how long a count may take.
const countLimit = 2 * time.Second

// count goes on if the caller goes away meanwhile: a count that is broken off may
// have been made, and nobody would know to give it back.
func (s *share) count(ctx context.Context, a *allowance) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), countLimit)
	defer cancel()
	a.taken, err = s.daily.Counts.Take(within, a.subject, a.what, s.day, a.most)
	return err
}

// settle gives back what was taken for a command that came to nothing. A process
// that dies before counts one too many, which lasts for a day at most.
func (s *share) settle(ctx context.Context, done Result, err error) {
	if err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countLimit)
	defer cancel()
	for _, a := range s.list {
		if a.taken {
			_ = s.daily.Counts.GiveBack(ctx, a.subject, a.what, s.day) // then one too many is counted
		}
	}
}
