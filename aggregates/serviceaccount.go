package aggregates

import (
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about a service account is refused.
var (
	ErrNoServiceAccount       = fault.New(fault.NotFound, "service_account_not_found", "There is no such service account.")
	ErrServiceAccountRevoked  = fault.New(fault.Conflict, "service_account_revoked", "This service account is revoked. Create a new one.")
	ErrServiceAccountNameUsed = fault.New(fault.Conflict, "service_account_name_taken",
		"A service account of this workspace has or had this name. Names are not used again, so that the audit log tells accounts apart.")

	ErrTokenInvalid = fault.New(fault.Unauthenticated, "service_token_invalid",
		"This service token is not valid. It may have been rotated or revoked.")
)

// ErrScopeMissing returns the error for an account that lacks a scope.
func ErrScopeMissing(s events.Scope) *fault.Fault {
	return fault.New(fault.Denied, "service_scope_missing", "This service account lacks the %s scope.", s).With("scope", s)
}

// staleUseEvery is the minimum time between two records of the use of an old token.
const staleUseEvery = time.Hour

// A ServiceAccount is an identity for scripts with exactly one valid token.
type ServiceAccount struct {
	id          events.ID
	name        string
	scopes      []events.Scope
	fingerprint events.Fingerprint
	tail        string
	revoked     bool
	staleUse    time.Time // when the use of an old token was last recorded
}

// A Token is what is stored of a service token. It is not the token itself.
type Token struct {
	Fingerprint events.Fingerprint
	Tail        string
}

// Apply adds one event.
func (a *ServiceAccount) Apply(e events.Event, _ events.Actor) {
	switch e := e.(type) {
	case events.ServiceAccountCreated:
		a.id, a.name, a.scopes, a.fingerprint, a.tail = e.Account, e.Name, e.Scopes, e.Fingerprint, e.Tail
	case events.ServiceAccountRotated:
		a.fingerprint, a.tail = e.Fingerprint, e.Tail
	case events.ServiceAccountRevoked:
		a.revoked = true
	case events.ServiceAccountStaleTokenUsed:
		a.staleUse = e.UsedAt
	}
}

// Create creates the account with its first token.
func (a *ServiceAccount) Create(id events.ID, name string, scopes []events.Scope, t Token) ([]events.Event, error) {
	if err := input.AccountName.Check("name", name); err != nil {
		return nil, err
	}
	scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	if len(scopes) == 0 {
		return nil, fault.Field("scopes", "must have at least one scope")
	}
	for _, s := range scopes {
		if s != events.ReadAPI && s != events.SubmitJobs {
			return nil, fault.Field("scopes", "must be among api.read, farm.submit")
		}
	}
	return oneEvent(events.ServiceAccountCreated{Account: id, Name: name, Scopes: scopes, Fingerprint: t.Fingerprint, Tail: t.Tail})
}

// Rotate replaces the token.
func (a *ServiceAccount) Rotate(t Token) ([]events.Event, error) {
	if err := a.usable(); err != nil {
		return nil, err
	}
	return oneEvent(events.ServiceAccountRotated{
		Account: a.id, Name: a.name, Scopes: a.scopes,
		From: a.fingerprint, FromTail: a.tail, Fingerprint: t.Fingerprint, Tail: t.Tail,
	})
}

// Revoke disables the account for good.
func (a *ServiceAccount) Revoke() ([]events.Event, error) {
	if err := a.usable(); err != nil {
		return nil, err
	}
	return oneEvent(events.ServiceAccountRevoked{Account: a.id, Name: a.name, Fingerprint: a.fingerprint, Tail: a.tail, KeepsName: true})
}

// NoteStaleToken records that an old token was used, at most once an hour.
func (a *ServiceAccount) NoteStaleToken(tail string, at time.Time) ([]events.Event, error) {
	if a.id.IsZero() || at.Sub(a.staleUse) < staleUseEvery {
		return nil, nil
	}
	return oneEvent(events.ServiceAccountStaleTokenUsed{Account: a.id, Name: a.name, Tail: tail, UsedAt: at.UTC().Truncate(time.Microsecond)})
}

func (a *ServiceAccount) usable() error {
	switch {
	case a.id.IsZero():
		return ErrNoServiceAccount
	case a.revoked:
		return ErrServiceAccountRevoked
	}
	return nil
}

// Allow returns an error unless token is the account's current token and the account has
// the scope.
func (a *ServiceAccount) Allow(token events.Fingerprint, scope events.Scope) error {
	switch {
	case a.revoked || a.fingerprint != token:
		return ErrTokenInvalid
	case !a.May(scope):
		return ErrScopeMissing(scope)
	}
	return nil
}

// May reports whether the account has the scope and has not been revoked.
func (a *ServiceAccount) May(scope events.Scope) bool {
	return !a.revoked && slices.Contains(a.scopes, scope)
}
