package commands

import (
	"context"
	"errors"
	"time"

	"svc/events"
	"svc/fault"
)

// Daily is how much a person may do in a day of what reaches others or stays for
// ever. A day begins at midnight UTC. 0 is no bound, and the zero Daily has none.
type Daily struct {
	Workspaces  int // made
	Invitations int // sent, or sent again
	Counts      Counts
}

// Counts keeps how often a person did something on a day, for all processes
// together.
type Counts interface {
	// Take counts one more. ok is false if there are most already.
	Take(ctx context.Context, user events.ID, what string, day time.Time, most int) (ok bool, err error)
	// GiveBack counts one less.
	GiveBack(ctx context.Context, user events.ID, what string, day time.Time) error
}

// Limit holds people to daily bounds. Call it before the first command.
func (h *Handler) Limit(d Daily) { h.daily = d }

// A bounded command counts against a daily bound: most of what its refusal says.
type bounded interface {
	bound(d Daily) (most int, what, refusal string)
}

func (CreateWorkspace) bound(d Daily) (int, string, string) {
	return d.Workspaces, "workspaces", "You have made %d workspaces today, as many as a person may in a day. The next day begins at midnight UTC."
}

const invitationsRefusal = "You have sent %d invitations today, as many as a person may in a day. The next day begins at midnight UTC."

func (SendInvitation) bound(d Daily) (int, string, string) {
	return d.Invitations, "invitations", invitationsRefusal
}

func (ResendInvitation) bound(d Daily) (int, string, string) {
	return d.Invitations, "invitations", invitationsRefusal
}

// A share is what one command takes of a person's day. Its zero value is no share
// of anything.
type share struct {
	counts  Counts // nil if the command is not bounded
	user    events.ID
	most    int
	what    string
	refusal string

	taken bool
	day   time.Time
}

func (h *Handler) shareOf(o Order, request any) *share {
	c, ok := request.(bounded)
	if !ok || o.Actor.Type != events.ByUser {
		return &share{}
	}
	s := &share{counts: h.daily.Counts, user: o.Actor.ID}
	if s.most, s.what, s.refusal = c.bound(h.daily); s.most == 0 {
		s.counts = nil
	}
	return s
}

// take is called when the command is decided and about to be stored, so that what
// is refused for another reason counts for nothing.
func (s *share) take(ctx context.Context, at time.Time) error {
	if s.counts == nil || s.taken {
		return nil
	}
	s.day = at.UTC().Truncate(24 * time.Hour)
	ok, err := s.counts.Take(ctx, s.user, s.what, s.day, s.most)
	if err != nil {
		return err
	}
	if !ok {
		wait := s.day.Add(24 * time.Hour).Sub(at)
		return fault.New(fault.RateLimited, "rate_limited", s.refusal, s.most).After(wait)
	}
	s.taken = true
	return nil
}

const giveBackLimit = 2 * time.Second

// settle gives back what was taken for a command that came to nothing. A process
// that dies before counts one too many, which lasts for a day at most.
func (s *share) settle(ctx context.Context, done Result, err error) {
	if !s.taken || err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackLimit)
	defer cancel()
	_ = s.counts.GiveBack(ctx, s.user, s.what, s.day) // then one too many is counted
}
