package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/bearer"
	"svc/commands/work"
	"svc/events"
	"svc/input"
)

// CreateServiceAccount creates a service account. Token is its first token, which the
// caller has generated and shows once.
type CreateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID           `json:"-"`
	Token   bearer.ServiceToken `json:"-"`
	Name    string              `json:"name"`
	Scopes  []events.Scope      `json:"scopes"`
}

func (c CreateServiceAccount) denial() events.CommandDenied {
	e := denialOf(events.ServiceAccountCreated{}, events.ID{})
	if input.AccountName.Fits(c.Name) {
		e.Name = "service:" + c.Name
	}
	return e
}

func (CreateServiceAccount) limit() *limit { return serviceAccounts }

// An AccountAnswer is the stored answer of a command about a service account.
type AccountAnswer struct {
	Account events.ID `json:"accountId"`
}

// CreateServiceAccount refuses a name that another account of the workspace has or had: records name who acted.
// Callers who may not manage service accounts are refused; so they are by the two commands below.
func (h *Handler) CreateServiceAccount(ctx context.Context, c CreateServiceAccount) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onAccount(c.Account, func(w *work.Unit, a *aggregates.ServiceAccount) ([]events.Event, error) {
		w.Claim(events.Claim{Key: events.ServiceAccountKey(c.Name), Owner: c.Account}, aggregates.ErrServiceAccountNameUsed)
		return a.Create(c.Account, c.Name, c.Scopes, stored(c.Token))
	}))
}

// RotateServiceAccount replaces the account's token by Token, which the caller has
// generated and shows once.
type RotateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID           `json:"accountId"`
	Token   bearer.ServiceToken `json:"-"`
}

func (c RotateServiceAccount) denial() events.CommandDenied {
	return denialOf(events.ServiceAccountRotated{}, c.Account)
}

func (RotateServiceAccount) limit() *limit { return rotations }

// RotateServiceAccount refuses a revoked account. The previous token is refused from the
// moment at which the event is stored.
func (h *Handler) RotateServiceAccount(ctx context.Context, c RotateServiceAccount) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onAccount(c.Account, func(_ *work.Unit, a *aggregates.ServiceAccount) ([]events.Event, error) {
		return a.Rotate(stored(c.Token))
	}))
}

// RevokeServiceAccount disables a service account for good. It keeps its name.
type RevokeServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID `json:"accountId"`
}

func (c RevokeServiceAccount) denial() events.CommandDenied {
	return denialOf(events.ServiceAccountRevoked{}, c.Account)
}

func (RevokeServiceAccount) limit() *limit { return ending }

// RevokeServiceAccount refuses a revoked account.
func (h *Handler) RevokeServiceAccount(ctx context.Context, c RevokeServiceAccount) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onAccount(c.Account, func(_ *work.Unit, a *aggregates.ServiceAccount) ([]events.Event, error) {
		return a.Revoke()
	}))
}

// NoteStaleToken records that a token was used which is no longer valid.
type NoteStaleToken struct {
	Meta
	Account events.ID
	Tail    string
}

// NoteStaleToken does nothing if such a use was recorded within the last hour.
func (h *Handler) NoteStaleToken(ctx context.Context, c NoteStaleToken) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Account,
		func(w *work.Unit, a *aggregates.ServiceAccount) ([]events.Event, error) {
			return a.NoteStaleToken(c.Tail, w.Now)
		}))
}

// onAccount is work.On for a service account, for people who may manage service accounts.
func onAccount(id events.ID, decide func(*work.Unit, *aggregates.ServiceAccount) ([]events.Event, error)) work.Decide {
	return ifAllowed(events.ManageServiceAccounts, work.On(id,
		func(w *work.Unit, a *aggregates.ServiceAccount) ([]events.Event, error) {
			w.Answer = AccountAnswer{Account: id}
			return decide(w, a)
		}))
}

// stored returns what is kept of a token.
func stored(t bearer.ServiceToken) aggregates.Token {
	return aggregates.Token{Fingerprint: t.Fingerprint(), Tail: t.Tail()}
}
