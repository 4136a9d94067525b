package commands

import (
	"context"
	"fmt"
	"slices"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

// Why a person may be refused.
var (
	ErrEmailTaken   = fault.New(fault.Conflict, "email_taken", "This e-mail address belongs to another person.")
	ErrAccountTaken = fault.New(fault.Conflict, "account_taken", "This account belongs to another person.")
)

// RegisterUser makes a person known, with a personal workspace that they own.
// The workspace of Meta is that of the personal one, which must be new.
// Account, if it names a provider, is the account that they signed in by.
type RegisterUser struct {
	Meta          `json:"-"`
	User          events.ID                `json:"userId"`
	Member        events.ID                `json:"memberId"`
	Name          string                   `json:"name"`
	Emails        []string                 `json:"emails"` // verified, as input.Email has them, the primary one first
	AvatarURL     string                   `json:"avatarUrl"`
	WorkspaceName string                   `json:"workspaceName"`
	WorkspaceSlug string                   `json:"workspaceSlug"`
	Account       events.UserAccountLinked `json:"account"`
}

// RegisterUser refuses an address or account that another person has, and a slug that
// another workspace has. To register again does nothing.
func (h *Handler) RegisterUser(ctx context.Context, c RegisterUser) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		workspace, err := load[aggregates.Workspace](w, c.Workspace)
		if err != nil {
			return err
		}
		user, err := load[aggregates.User](w, c.User)
		if err != nil {
			return err
		}
		if len(c.Emails) == 0 {
			return fmt.Errorf("register %s: no verified address", c.User)
		}
		for _, address := range c.Emails {
			w.claim(events.Claim{Key: events.EmailKey(address), Owner: c.User, Global: true}, ErrEmailTaken)
		}
		w.claim(events.Claim{Key: events.SlugKey(c.WorkspaceSlug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
		list, err := user.Register(events.UserRegistered{User: c.User, Name: c.Name, Emails: c.Emails, AvatarURL: c.AvatarURL})
		if c.Account.Provider != "" && len(list) > 0 {
			w.claim(events.Claim{Key: events.AccountKey(c.Account), Owner: c.User, Global: true}, ErrAccountTaken)
			list = append(list, c.Account)
		}
		if err := w.then(c.User, list, err); err != nil {
			return err
		}
		owner := events.MemberJoined{Member: c.Member, User: c.User, Email: c.Emails[0], Name: c.Name}
		list, err = workspace.Create(c.WorkspaceName, c.WorkspaceSlug, owner)
		return w.then(c.Workspace, list, err)
	})
}

// RefreshUser takes in what a provider says of a person who signs in again:
// the account, and the addresses that are verified now. An address that
// somebody else holds is left out beforehand. The workspace of Meta is the
// personal one.
type RefreshUser struct {
	Meta    `json:"-"`
	Emails  []string                 `json:"emails"`
	Account events.UserAccountLinked `json:"account"`
}

// RefreshUser refuses an address or account that another person has. Addresses that are
// no longer verified are given up, but not the last ones.
func (h *Handler) RefreshUser(ctx context.Context, c RefreshUser) (Result, error) {
	return h.refreshUser(ctx, c, func(*aggregates.User) error { return nil })
}

// refreshUser is RefreshUser, if allow does not refuse.
func (h *Handler) refreshUser(ctx context.Context, c RefreshUser, allow func(*aggregates.User) error) (Result, error) {
	return h.carry(ctx, c.Meta, c, func(w *work) error {
		user, err := load[aggregates.User](w, c.Actor.ID)
		if err != nil {
			return err
		}
		if err := allow(user); err != nil {
			return err
		}
		for _, address := range user.Emails() {
			if len(c.Emails) > 0 && !slices.Contains(c.Emails, address) { // nobody is left without any
				w.releases = append(w.releases, events.Claim{Key: events.EmailKey(address), Owner: c.Actor.ID, Global: true})
			}
		}
		for _, address := range c.Emails {
			if !slices.Contains(user.Emails(), address) {
				w.claim(events.Claim{Key: events.EmailKey(address), Owner: c.Actor.ID, Global: true}, ErrEmailTaken)
			}
		}
		list, err := user.Verify(c.Actor.ID, c.Emails)
		if err := w.then(c.Actor.ID, list, err); err != nil {
			return err
		}
		list, err = user.Link(c.Account)
		if len(list) > 0 {
			w.claim(events.Claim{Key: events.AccountKey(c.Account), Owner: c.Actor.ID, Global: true}, ErrAccountTaken)
		}
		return w.then(c.Actor.ID, list, err)
	})
}

// carryUser carries out what concerns the asking person alone.
func (h *Handler) carryUser(
	ctx context.Context, m Meta, request any, decide func(*aggregates.User) ([]events.Event, error),
) (Result, error) {
	return h.carry(ctx, m, request, func(w *work) error {
		user, err := load[aggregates.User](w, m.Actor.ID)
		if err != nil {
			return err
		}
		list, err := decide(user)
		return w.then(m.Actor.ID, list, err)
	})
}
