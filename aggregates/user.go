package aggregates

import (
	"slices"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// Why a person may not sign in.
var (
	ErrNoUser       = fault.New(fault.NotFound, "user_not_found", "There is no such person.")
	ErrOtherAccount = fault.New(fault.Denied, "other_account", "This person signs in by another account of the same provider.")
)

// A User is a person. Their stream lies in their personal workspace.
type User struct {
	registered bool
	name       string
	emails     []string
	accounts   map[string]bool // provider/id at the provider
}

// Apply takes in one event. None counts before the person is registered: the
// stream of something else may be asked for as a person.
func (u *User) Apply(e events.Event, _ events.ID) {
	if _, begins := e.(events.UserRegistered); !u.registered && !begins {
		return
	}
	switch e := e.(type) {
	case events.UserRegistered:
		u.registered, u.name, u.emails, u.accounts = true, e.Name, e.Emails, map[string]bool{}
	case events.UserEmailsVerified:
		u.emails = e.Emails
	case events.UserAccountLinked:
		u.accounts[e.Key()] = true
	case events.UserSignedIn, events.UserSignedOut: // nothing is decided by them
	}
}

// Register makes the person known. To register again changes nothing.
func (u *User) Register(e events.UserRegistered) ([]events.Event, error) {
	if u.registered {
		return nil, nil
	}
	if err := checkEmails(e.Emails); err != nil {
		return nil, err
	}
	return one(e)
}

// checkEmails refuses addresses that are not in the form in which they are kept:
// they are keys, by which people are found.
func checkEmails(list []string) error {
	for _, address := range list {
		if kept, ok := input.Email(address); !ok || kept != address {
			return fault.Field("emails", "must be e-mail addresses")
		}
	}
	return nil
}

// Name returns what the person is called.
func (u *User) Name() string { return u.name }

// Emails returns the addresses that the person has verified, the primary one first.
func (u *User) Emails() []string { return u.emails }

// Verify replaces the addresses by those that the provider names now.
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
	return one(events.UserEmailsVerified{User: user, From: u.emails, Emails: emails})
}

// Link adds an account by which the person signs in.
func (u *User) Link(e events.UserAccountLinked) ([]events.Event, error) {
	switch {
	case !u.registered:
		return nil, ErrNoUser
	case u.accounts[e.Key()]:
		return nil, nil
	}
	return one(e)
}

// SignIn refuses an account other than the one by which the person signs in at the
// same provider: an address that was given up there and verified by somebody else
// does not open the first one's door.
func (u *User) SignIn(by events.UserAccountLinked) error {
	switch {
	case !u.registered:
		return ErrNoUser
	case u.accounts[by.Key()]:
		return nil
	}
	for key := range u.accounts {
		if strings.HasPrefix(key, by.Provider+"/") {
			return ErrOtherAccount
		}
	}
	return nil
}

// Record takes in what the person did about their own account.
func (u *User) Record(e events.Event) ([]events.Event, error) {
	if !u.registered {
		return nil, ErrNoUser
	}
	return one(e)
}
