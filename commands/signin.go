package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// ErrNotLinked means that an account, or its address, belongs to another person.
var ErrNotLinked = fault.New(fault.Conflict, "account_not_linked", "Your account or its address belongs to another person here.")

// errWrongHolder means that a unique key names a person who does not hold it according to the log.
var errWrongHolder = errors.New("a unique key names a person who does not hold it")

// SignIn signs in a person whom a provider has identified, and registers a new one.
// Workspace and actor of Meta and the user of Account are empty: SignIn fills them in.
type SignIn struct {
	Meta
	Account   events.UserAccountLinked
	Name      string
	Emails    []string // verified, normalized by input.Email, the primary one first
	AvatarURL string
}

// A Person is somebody who signed in. Home is their personal workspace, Meta is for their
// commands in it.
type Person struct {
	User, Home events.ID
	New        bool
	Meta       Meta
}

// SignIn finds the person by the account, or by the first address of somebody who has no other
// account at the same host. Unique keys lead to the person, and the log decides: nobody signs in as a person whose
// stream does not have the account or the address. If nobody is found it registers a new person with a personal workspace.
// For a known person, it records the addresses that the provider reports now, and an account that is
// new. It returns [ErrNotLinked] if all who hold the addresses have another account at the same host.
func (h *Handler) SignIn(ctx context.Context, c SignIn) (Person, error) {
	p, err := h.signIn(ctx, c)
	if errors.Is(err, ErrNotLinked) || errors.Is(err, errWrongHolder) {
		// Another sign-in was faster, perhaps the person's own in another window.
		p, err = h.signIn(ctx, c)
	}
	if errors.Is(err, errWrongHolder) {
		h.Logger.ErrorContext(ctx, "unique key differs from the log: nobody is signed in by it", "user", p.User, "workspace", p.Home, "err", err)
		err = fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	return p, err
}

func (h *Handler) signIn(ctx context.Context, c SignIn) (p Person, err error) {
	p.Meta = c.Meta
	p.Meta.Actor.Type = events.ByUser
	people, err := h.signsIn(ctx, c)
	if err != nil {
		return p, fmt.Errorf("look up person: %w", err)
	}
	if len(people) == 0 {
		err = h.signUp(ctx, c, &p)
	}
	for _, one := range people {
		p.Home, p.User = one.Home, one.User
		if err = h.signInAgain(ctx, c, &p, one.holds); !errors.Is(err, aggregates.ErrOtherAccount) {
			break
		}
	}
	for _, taken := range []error{ErrEmailTaken, ErrAccountTaken, aggregates.ErrNoUser, aggregates.ErrOtherAccount} {
		if errors.Is(err, taken) {
			return p, fmt.Errorf("%w: %w", ErrNotLinked, err)
		}
	}
	return p, err
}

// A holder is who holds a unique key according to its row. holds tells whether they do according to the log.
type holder struct {
	User, Home events.ID
	holds      func(*aggregates.User) bool
}

// signsIn returns the person who has the account, or else those who hold addresses, in the order in
// which to try them. An address may have been given up by somebody else who still holds it, so one
// whose account of this id has no known host comes first.
func (h *Handler) signsIn(ctx context.Context, c SignIn) (people []holder, err error) {
	p := holder{holds: func(u *aggregates.User) bool { return u.HasAccount(c.Account) }}
	if p.Home, p.User, err = h.log.Holder(ctx, events.AccountKey(c.Account)); err != nil || !p.User.IsZero() {
		return []holder{p}, err
	}
	_, early, err := h.log.Holder(ctx, events.AccountKey(c.Account.WithoutHost()))
	if err != nil {
		return nil, err
	}
	for _, address := range c.Emails {
		p := holder{holds: func(u *aggregates.User) bool { return slices.Contains(u.Emails(), address) }}
		if p.Home, p.User, err = h.log.Holder(ctx, events.EmailKey(address)); err != nil {
			return nil, err
		}
		if p.User.IsZero() || slices.ContainsFunc(people, func(o holder) bool { return o.User == p.User && o.Home == p.Home }) {
			continue
		}
		first := false
		if p.User == early { // for ever, also if the host is known since
			first, err = look(ctx, h, p.Home, p.User, func(u *aggregates.User) bool { return u.HasAccount(c.Account.WithoutHost()) })
			if err != nil {
				return nil, err
			}
		}
		if first {
			people = slices.Insert(people, 0, p)
		} else {
			people = append(people, p)
		}
	}
	return people, nil
}

// signUp registers a person with a personal workspace. Its slug is the login or, if that is
// taken, the login with a number.
func (h *Handler) signUp(ctx context.Context, c SignIn, p *Person) (err error) {
	p.Home, p.User, p.New = events.NewID(h.now()), events.NewID(h.now()), true
	p.Meta.Workspace, p.Meta.Actor.ID, p.Meta.Actor.Name = p.Home, p.User, c.Emails[0]
	c.Account.User = p.User
	for try := range slugTries {
		_, err = h.RegisterUser(ctx, RegisterUser{
			Meta: p.Meta, User: p.User, Member: events.NewID(h.now()), Name: c.Name, Emails: c.Emails, AvatarURL: c.AvatarURL,
			WorkspaceName: personalName(c.Name), WorkspaceSlug: personalSlug(c.Account.Login, try), Account: c.Account,
		})
		if !errors.Is(err, aggregates.ErrSlugTaken) {
			break
		}
	}
	return err
}

// personalName returns the name of a person's personal workspace.
func personalName(name string) string {
	const of = "'s workspace"
	return input.Truncate(name, input.MaxName-len(of)) + of
}

const slugTries = 20

// personalSlug returns the slug to try for a personal workspace. try counts from 0.
func personalSlug(login string, try int) string {
	switch base := input.SlugOf(login); {
	case try > slugTries/2: // the login is a common one
		return base + "-" + strconv.Itoa(10_000+rand.IntN(90_000))
	case try > 0:
		return base + "-" + strconv.Itoa(try+1)
	default:
		return base
	}
}

// signInAgain records the addresses of a known person and an account that is new. Addresses that
// other people hold are left out.
func (h *Handler) signInAgain(ctx context.Context, c SignIn, p *Person, holds func(*aggregates.User) bool) error {
	p.Meta.Workspace, p.Meta.Actor.ID, c.Account.User = p.Home, p.User, p.User
	name, primary, err := h.profile(ctx, c, p, holds)
	if err != nil {
		return err
	}
	p.Meta.Actor.Name = primary
	var own []string
	for _, address := range c.Emails {
		_, holder, err := h.log.Holder(ctx, events.EmailKey(address))
		if err != nil {
			return fmt.Errorf("look up holder of address: %w", err)
		}
		if holder.IsZero() || holder == p.User {
			own = append(own, address)
		}
	}
	_, err = h.RefreshUser(ctx, RefreshUser{Meta: p.Meta, Emails: own, Account: c.Account, SignIn: true})
	if err == nil && len(own) > 0 {
		h.refreshMemberships(ctx, c, p, name, own[0])
	}
	return err
}

// profile returns a person's name and primary address, or an error if they may not sign in by the account, or are not
// who holds the key by which they were found.
func (h *Handler) profile(ctx context.Context, c SignIn, p *Person, holds func(*aggregates.User) bool) (name, email string, err error) {
	home, err := h.Views.Home(ctx, p.User)
	switch {
	case err != nil:
		return "", "", err
	case home != p.Home:
		return "", "", fmt.Errorf("%w: home is %s", errWrongHolder, home)
	}
	refusal, err := look(ctx, h, p.Home, p.User, func(u *aggregates.User) error {
		if !holds(u) {
			return errWrongHolder
		}
		name, email = u.Name(), u.Emails()[0]
		return u.SignIn(c.Account)
	})
	return name, email, cmp.Or(err, refusal)
}

// refreshTimeout is how long a sign-in waits for its updates of workspaces.
const refreshTimeout = 2 * time.Second

// refreshMemberships updates the member's name and address in workspaces where they are out of date.
// Only the order of member lists depends on them, so a workspace that cannot be updated is
// left to the next sign-in.
func (h *Handler) refreshMemberships(ctx context.Context, c SignIn, p *Person, name, email string) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	list, err := h.Views.StaleMemberships(ctx, p.User, name, email)
	for _, workspace := range list {
		if err == nil {
			m := p.Meta
			m.Workspace = workspace
			_, err = h.RefreshMember(ctx, RefreshMember{Meta: m, Name: name, Email: email})
		}
	}
	if err != nil {
		h.Logger.WarnContext(ctx, "update a member's name in workspaces", "user", p.User, "err", err)
	}
}
