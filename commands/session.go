package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
)

// RecordSignIn records that a person signed in. The workspace of Meta is their personal
// one.
type RecordSignIn struct {
	Meta    `json:"-"`
	Email   string
	Session events.ID
	Method  string // the provider, or "email"
}

func (RecordSignIn) limit() *limit { return signIns }

// RecordSignIn refuses a person who is not registered.
func (h *Handler) RecordSignIn(ctx context.Context, c RecordSignIn) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Actor.ID, func(_ *work.Unit, u *aggregates.User) ([]events.Event, error) {
		return u.Record(events.UserSignedIn{User: c.Actor.ID, Email: c.Email, Session: c.Session, Method: c.Method})
	}))
}

// EndSessions ends sessions of a person, in the transaction that stores the event: see
// sessions.Endings. The workspace of Meta is their personal one. The caller has to make
// sure that the sessions are theirs.
type EndSessions struct {
	Meta     `json:"-"`
	Sessions []events.ID
}

func (EndSessions) limit() *limit { return ending }

// EndSessions refuses a person who is not registered. Without sessions it does nothing.
func (h *Handler) EndSessions(ctx context.Context, c EndSessions) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Actor.ID, func(_ *work.Unit, u *aggregates.User) ([]events.Event, error) {
		if len(c.Sessions) == 0 {
			return nil, nil
		}
		return u.Record(events.UserSignedOut{User: c.Actor.ID, Sessions: c.Sessions})
	}))
}
