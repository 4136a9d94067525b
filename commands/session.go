package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// RecordSignIn writes down that a person signed in. The order's workspace is
// their personal one.
type RecordSignIn struct {
	Order   `json:"-"`
	Email   string
	Session events.ID
	Method  string // the provider, or "email"
}

// RecordSignIn carries out the command of the same name.
func (h *Handler) RecordSignIn(ctx context.Context, c RecordSignIn) (Result, error) {
	return h.carryUser(ctx, c.Order, c, func(u *aggregates.User) ([]events.Event, error) {
		return u.Record(events.UserSignedIn{User: c.Actor.ID, Email: c.Email, Session: c.Session, Method: c.Method})
	})
}

// RecordSignOut writes down that a person ended sessions. The order's
// workspace is their personal one.
type RecordSignOut struct {
	Order    `json:"-"`
	Sessions []events.ID
}

// RecordSignOut carries out the command of the same name.
func (h *Handler) RecordSignOut(ctx context.Context, c RecordSignOut) (Result, error) {
	return h.carryUser(ctx, c.Order, c, func(u *aggregates.User) ([]events.Event, error) {
		if len(c.Sessions) == 0 {
			return nil, nil
		}
		return u.Record(events.UserSignedOut{User: c.Actor.ID, Sessions: c.Sessions})
	})
}
