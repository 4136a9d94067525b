package aggregates

import (
	"slices"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a person may not sign in.
var (
	ErrNoUser       = fault.New(fault.NotFound, "user_not_found", "There is no such person.")
	ErrOtherAccount = fault.New(fault.Denied, "other_account", "This person signs in by another account of the same provider.")
)

// A User is a person. Their stream is in their personal workspace.
type User struct {
	registered bool
	name       string
	emails     []string
	accounts   map[string]events.UserAccountLinked // by key
}

// Apply adds one event. Events before UserRegistered are ignored, because any stream may be
// loaded as a user's.
func (u *User) Apply(e events.Event, _ events.Actor) {
	if _, begins := e.(events.UserRegistered); !u.registered && !begins {
		return
	}
	switch e := e.(type) {
	case events.UserRegistered:
		u.registered, u.name, u.emails, u.accounts = true, e.Name, e.Emails, map[string]events.UserAccountLinked{}
	case events.UserEmailsVerified:
		u.emails = e.Emails
	case events.UserAccountLinked:
		delete(u.accounts, e.WithoutHost().Key()) // its host is known now
		u.accounts[e.Key()] = e
	case events.UserSignedIn, events.UserSignedOut: // no decision depends on them
	}
}

// Register registers the person. It returns no event if they are registered.
func (u *User) Register(e events.UserRegistered) ([]events.Event, error) {
	if u.registered {
		return nil, nil
	}
	if err := checkEmails(e.Emails); err != nil {
		return nil, err
	}
	return oneEvent(e)
}

// checkEmails refuses addresses that are not normalized: they are unique keys by which
// people are found.
func checkEmails(list []string) error {
	for _, address := range list {
		if kept, ok := input.Email(address); !ok || kept != address {
			return fault.Field("emails", "must be e-mail addresses")
		}
	}
	return nil
}

// Name returns the person's name.
func (u *User) Name() string { return u.name }

// Emails returns the verified addresses, the primary one first.
func (u *User) Emails() []string { return u.emails }

// HasAccount reports whether the person signs in by an account. One whose host is known is another one than
// that without.
func (u *User) HasAccount(a events.UserAccountLinked) bool {
	_, ok := u.accounts[a.Key()]
	return ok
}

// Verify replaces the verified addresses by those that the provider reports now.
func (u *User) Verify(user events.ID, emails []string) ([]events.Event, error) {
	switch {
	case !u.registered:
		return nil, ErrNoUser
	case len(emails) == 0 || slices.Equal(emails, u.emails):
		return nil, nil
	}
	if err := checkEmails(emails); err != nil {
		return nil, err
	}
	return oneEvent(events.UserEmailsVerified{User: user, From: u.emails, Emails: emails})
}

// Link adds an account with which the person can sign in.
func (u *User) Link(e events.UserAccountLinked) ([]events.Event, error) {
	if !u.registered {
		return nil, ErrNoUser
	}
	if u.HasAccount(e) {
		return nil, nil
	}
	return oneEvent(e)
}

// SignIn returns an error if the person has another account at the same host. Otherwise an
// address that was given up there and then verified by somebody else would give them access to
// this person's account. An account whose host is not known may be at the same one.
func (u *User) SignIn(by events.UserAccountLinked) error {
	if !u.registered {
		return ErrNoUser
	}
	if u.HasAccount(by) {
		return nil
	}
	for _, a := range u.accounts {
		if a.Provider == by.Provider && (a.Host == by.Host || a.Host == "" && a.Account != by.Account) {
			return ErrOtherAccount
		}
	}
	return nil
}

// Record records an event of the person's own account, such as signing in.
func (u *User) Record(e events.Event) ([]events.Event, error) {
	if !u.registered {
		return nil, ErrNoUser
	}
	return oneEvent(e)
}
