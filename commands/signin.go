package commands

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// ErrNotLinked says that an account, or its address, belongs to another person.
var ErrNotLinked = fault.New(fault.Conflict, "account_not_linked", "Your account or its address belongs to another person here.")

// SignIn finds the person whom a provider named, or makes them known. Workspace and
// actor of Meta are left empty, as is the user of the account: they are found.
type SignIn struct {
	Meta
	Account   events.UserAccountLinked
	Name      string
	Emails    []string // verified, as input.Email has them, the primary one first
	AvatarURL string

	// CalledOtherwise returns workspaces, a few at once, in which a person has
	// another name or address than these.
	CalledOtherwise func(ctx context.Context, user events.ID, name, email string) ([]events.ID, error)
}

// A Person is who signed in. Home is their personal workspace, Meta that of their
// commands there.
type Person struct {
	User, Home events.ID
	New        bool
	Meta       Meta
}

// SignIn takes for the person whoever has the account, or else the first of the
// addresses that somebody has, or else somebody new with a personal workspace. What
// the provider says of somebody who is known is taken in. It refuses with
// [ErrNotLinked] an account other than the one by which that person signs in at the
// same provider.
func (h *Handler) SignIn(ctx context.Context, c SignIn) (Person, error) {
	p, err := h.signIn(ctx, c)
	if errors.Is(err, ErrNotLinked) { // somebody was faster: perhaps they themselves, in another window
		p, err = h.signIn(ctx, c)
	}
	return p, err
}

func (h *Handler) signIn(ctx context.Context, c SignIn) (p Person, err error) {
	p.Meta = c.Meta
	p.Meta.Actor.Type = events.ByUser
	keys := []string{events.AccountKey(c.Account)}
	for _, address := range c.Emails {
		keys = append(keys, events.EmailKey(address))
	}
	for i := 0; err == nil && p.User.IsZero() && i < len(keys); i++ {
		p.Home, p.User, err = h.log.Holder(ctx, keys[i])
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("who signs in: %w", err)
	case p.User.IsZero():
		err = h.signUp(ctx, c, &p)
	default:
		err = h.signInAgain(ctx, c, &p)
	}
	for _, taken := range []error{ErrEmailTaken, ErrAccountTaken, aggregates.ErrNoUser, aggregates.ErrOtherAccount} {
		if errors.Is(err, taken) {
			return p, fmt.Errorf("%w: %w", ErrNotLinked, err)
		}
	}
	return p, err
}

// signUp makes a person with a personal workspace, whose slug is their login or,
// where that is taken, the login with a number.
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

// personalName names the personal workspace of a person.
func personalName(name string) string {
	const of = "'s workspace"
	return input.Cut(name, input.MaxName-len(of)) + of
}

const slugTries = 20

// personalSlug is the slug of a personal workspace that is tried.
func personalSlug(login string, try int) string {
	switch base := input.SlugOf(login); {
	case try > slugTries/2: // a login that many have
		return base + "-" + strconv.Itoa(10_000+rand.IntN(90_000))
	case try > 0:
		return base + "-" + strconv.Itoa(try+1)
	default:
		return base
	}
}

// signInAgain takes in what the provider says now of somebody who is known. An
// address that another person holds stays theirs.
func (h *Handler) signInAgain(ctx context.Context, c SignIn, p *Person) error {
	p.Meta.Workspace, p.Meta.Actor.ID, c.Account.User = p.Home, p.User, p.User
	name, primary, err := h.profile(ctx, c, p)
	if err != nil {
		return err
	}
	p.Meta.Actor.Name = primary
	var own []string
	for _, address := range c.Emails {
		_, holder, err := h.log.Holder(ctx, events.EmailKey(address))
		if err != nil {
			return fmt.Errorf("who has the address: %w", err)
		}
		if holder.IsZero() || holder == p.User {
			own = append(own, address)
		}
	}
	refresh := RefreshUser{Meta: p.Meta, Emails: own, Account: c.Account}
	_, err = h.refreshUser(ctx, refresh, func(u *aggregates.User) error { return u.SignIn(c.Account) })
	if err == nil && len(own) > 0 {
		h.present(ctx, c, p, name, own[0])
	}
	return err
}

// profile reads what a person is called, and their primary address.
func (h *Handler) profile(ctx context.Context, c SignIn, p *Person) (name, email string, err error) {
	_, err = h.carry(ctx, p.Meta, c, func(w *work) error {
		return look(w, p.User, func(u *aggregates.User) error {
			if len(u.Emails()) == 0 {
				return aggregates.ErrNoUser
			}
			name, email = u.Name(), u.Emails()[0]
			return nil
		})
	})
	return name, email, err
}

// presentLimit is how long a sign-in waits for the workspaces of a person.
const presentLimit = 2 * time.Second

// present tells workspaces what one of their members is called, and their address,
// where they know it otherwise or not at all. Lists of members are ordered by that and
// nothing else depends on it: whoever cannot be told is told at the next sign-in.
func (h *Handler) present(ctx context.Context, c SignIn, p *Person, name, email string) {
	ctx, cancel := context.WithTimeout(ctx, presentLimit)
	defer cancel()
	list, err := c.CalledOtherwise(ctx, p.User, name, email)
	for _, workspace := range list {
		if err == nil {
			m := p.Meta
			m.Workspace = workspace
			_, err = h.RefreshMember(ctx, RefreshMember{Meta: m, Name: name, Email: email})
		}
	}
	if err != nil {
		h.logger.WarnContext(ctx, "workspaces were not told what a member is called", "user", p.User, "err", err)
	}
}
