package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// RecordSignIn writes down that a person signed in. The workspace of Meta is
// their personal one.
type RecordSignIn struct {
	Meta    `json:"-"`
	Email   string
	Session events.ID
	Method  string // the provider, or "email"
}

// RecordSignIn refuses who never registered.
func (h *Handler) RecordSignIn(ctx context.Context, c RecordSignIn) (Result, error) {
	return h.carryUser(ctx, c.Meta, c, func(u *aggregates.User) ([]events.Event, error) {
		return u.Record(events.UserSignedIn{User: c.Actor.ID, Email: c.Email, Session: c.Session, Method: c.Method})
	})
}

// EndSessions signs a person out in some browsers. The workspace of Meta is their
// personal one; that the sessions are the person's is for the caller to see to. They
// end in the transaction that stores the event: see sessions.Endings.
type EndSessions struct {
	Meta     `json:"-"`
	Sessions []events.ID
}

// EndSessions refuses who never registered. Without a session it does nothing.
func (h *Handler) EndSessions(ctx context.Context, c EndSessions) (Result, error) {
	return h.carryUser(ctx, c.Meta, c, func(u *aggregates.User) ([]events.Event, error) {
		if len(c.Sessions) == 0 {
			return nil, nil
		}
		return u.Record(events.UserSignedOut{User: c.Actor.ID, Sessions: c.Sessions})
	})
}
