package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"svc/aggregates"
	"svc/events"
	"svc/input"
)

// CreateServiceAccount makes a service account. Token is its first token; the
// caller has made it and shows it once.
type CreateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID      `json:"-"`
	Token   ServiceToken   `json:"-"`
	Name    string         `json:"name"`
	Scopes  []events.Scope `json:"scopes"`
}

func (c CreateServiceAccount) denial() events.CommandDenied {
	e := denialOf(events.ServiceAccountCreated{}, events.ID{})
	if input.AccountName.Fits(c.Name) {
		e.Name = "service:" + c.Name
	}
	return e
}

// An AccountAnswer is what is kept of a command on a service account, for its
// repetition.
type AccountAnswer struct {
	Account events.ID `json:"accountId"`
}

// CreateServiceAccount refuses a name that another account of the workspace has, and
// whoever does not manage service accounts, as do the two below.
func (h *Handler) CreateServiceAccount(ctx context.Context, c CreateServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(w *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		w.claim(events.Claim{Key: events.ServiceAccountKey(c.Name), Owner: c.Account}, aggregates.ErrServiceAccountNameUsed)
		return a.Create(c.Account, c.Name, c.Scopes, c.Token.known())
	})
}

// RotateServiceAccount replaces the account's token by Token, which the caller
// has made and shows once.
type RotateServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID    `json:"accountId"`
	Token   ServiceToken `json:"-"`
}

func (c RotateServiceAccount) denial() events.CommandDenied {
	return denialOf(events.ServiceAccountRotated{}, c.Account)
}

// RotateServiceAccount refuses an account that is revoked. The token before is refused
// from the moment on at which the event is stored.
func (h *Handler) RotateServiceAccount(ctx context.Context, c RotateServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(_ *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		return a.Rotate(c.Token.known())
	})
}

// RevokeServiceAccount disables a service account for good. Its name is free
// for another one.
type RevokeServiceAccount struct {
	Meta    `json:"-"`
	Account events.ID `json:"accountId"`
}

func (c RevokeServiceAccount) denial() events.CommandDenied {
	return denialOf(events.ServiceAccountRevoked{}, c.Account)
}

// RevokeServiceAccount refuses an account that is revoked.
func (h *Handler) RevokeServiceAccount(ctx context.Context, c RevokeServiceAccount) (Result, error) {
	return h.carryAccount(ctx, c.Meta, c, c.Account, func(w *work, a *aggregates.ServiceAccount) ([]events.Event, error) {
		w.releases = append(w.releases, events.Claim{Key: events.ServiceAccountKey(a.Name()), Owner: c.Account})
		return a.Revoke()
	})
}

// NoteStaleToken records that a token was used which is no longer current.
type NoteStaleToken struct {
	Meta
	Account events.ID
	Tail    string
}

// NoteStaleToken does nothing where such a use was recorded within the hour.
func (h *Handler) NoteStaleToken(ctx context.Context, c NoteStaleToken) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		account, err := load[aggregates.ServiceAccount](w, c.Account)
		if err != nil {
			return err
		}
		list, err := account.NoteStaleToken(c.Tail, w.at)
		return w.then(c.Account, list, err)
	})
}

// carryAccount carries out what a person asks of a service account, if they
// administer the workspace at the moment it is stored.
func (h *Handler) carryAccount(
	ctx context.Context, m Meta, request any, id events.ID, decide func(*work, *aggregates.ServiceAccount) ([]events.Event, error),
) (Result, error) {
	return h.carry(ctx, m, request, func(w *work) error {
		if err := w.allow(events.ManageServiceAccounts); err != nil {
			return err
		}
		account, err := load[aggregates.ServiceAccount](w, id)
		if err != nil {
			return err
		}
		w.answer = AccountAnswer{Account: id}
		list, err := decide(w, account)
		return w.then(id, list, err)
	})
}

// AccountOf reads the answer of a command that was repeated.
func AccountOf(r Result) (events.ID, error) {
	var a AccountAnswer
	if err := json.Unmarshal(r.Answer, &a); err != nil {
		return events.ID{}, fmt.Errorf("read kept answer: %w", err)
	}
	return a.Account, nil
}
