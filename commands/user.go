package commands

import (
	"context"
	"fmt"
	"slices"

	"svc/aggregates"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
)

// The reasons for which a person is refused.
var (
	ErrEmailTaken   = fault.New(fault.Conflict, "email_taken", "This e-mail address belongs to another person.")
	ErrAccountTaken = fault.New(fault.Conflict, "account_taken", "This account belongs to another person.")
)

// RegisterUser registers a person, with a personal workspace that they own. The workspace
// of Meta is the personal one, which must be new. Account, if it has a provider, is the
// account that they signed in with.
type RegisterUser struct {
	Meta          `json:"-"`
	User          events.ID                `json:"userId"`
	Member        events.ID                `json:"memberId"`
	Name          string                   `json:"name"`
	Emails        []string                 `json:"emails"` // verified, normalized by input.Email, the primary one first
	AvatarURL     string                   `json:"avatarUrl"`
	WorkspaceName string                   `json:"workspaceName"`
	WorkspaceSlug string                   `json:"workspaceSlug"`
	Account       events.UserAccountLinked `json:"account"`
}

func (RegisterUser) limit() *limit { return signUp }

// RegisterUser refuses an address or account that another person has, and a slug that
// another workspace has. It does nothing if the person is registered.
func (h *Handler) RegisterUser(ctx context.Context, c RegisterUser) (Result, error) {
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		ws, err := work.Load[aggregates.Workspace](w, c.Workspace)
		if err != nil {
			return err
		}
		user, err := work.Load[aggregates.User](w, c.User)
		if err != nil {
			return err
		}
		if len(c.Emails) == 0 {
			return fmt.Errorf("register %s: no verified address", c.User)
		}
		for _, address := range c.Emails {
			w.Claim(events.Claim{Key: events.EmailKey(address), Owner: c.User, Global: true}, ErrEmailTaken)
		}
		w.Claim(events.Claim{Key: events.SlugKey(c.WorkspaceSlug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
		list, err := user.Register(events.UserRegistered{User: c.User, Name: c.Name, Emails: c.Emails, AvatarURL: c.AvatarURL})
		if c.Account.Provider != "" && len(list) > 0 {
			w.Claim(events.Claim{Key: events.AccountKey(c.Account), Owner: c.User, Global: true}, ErrAccountTaken)
			list = append(list, c.Account)
		}
		if err := w.AddEvents(c.User, list, err); err != nil {
			return err
		}
		owner := events.MemberJoined{Member: c.Member, User: c.User, Email: c.Emails[0], Name: c.Name}
		list, err = ws.Create(c.WorkspaceName, c.WorkspaceSlug, owner)
		return w.AddEvents(c.Workspace, list, err)
	})
}

// RefreshUser records what a provider reports about a person who signs in again: the
// account and the verified addresses. The caller leaves out addresses that others hold. The
// workspace of Meta is the personal one.
type RefreshUser struct {
	Meta    `json:"-"`
	Emails  []string                 `json:"emails"`
	Account events.UserAccountLinked `json:"account"`
	SignIn  bool                     `json:"-"` // refuse an account if the person has another one at its provider
}

func (RefreshUser) limit() *limit { return signIns }

// RefreshUser refuses an address or account that another person has. It releases addresses
// that are no longer verified, but never all of them.
func (h *Handler) RefreshUser(ctx context.Context, c RefreshUser) (Result, error) {
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		user, err := work.Load[aggregates.User](w, c.Actor.ID)
		if err != nil {
			return err
		}
		if c.SignIn {
			if err := user.SignIn(c.Account); err != nil {
				return err
			}
		}
		for _, address := range user.Emails() {
			if len(c.Emails) > 0 && !slices.Contains(c.Emails, address) { // an empty list must not release all addresses
				w.Release(events.Claim{Key: events.EmailKey(address), Owner: c.Actor.ID, Global: true})
			}
		}
		for _, address := range c.Emails {
			if !slices.Contains(user.Emails(), address) {
				w.Claim(events.Claim{Key: events.EmailKey(address), Owner: c.Actor.ID, Global: true}, ErrEmailTaken)
			}
		}
		list, err := user.Verify(c.Actor.ID, c.Emails)
		if err := w.AddEvents(c.Actor.ID, list, err); err != nil {
			return err
		}
		list, err = user.Link(c.Account)
		if len(list) > 0 {
			w.Claim(events.Claim{Key: events.AccountKey(c.Account), Owner: c.Actor.ID, Global: true}, ErrAccountTaken)
		}
		return w.AddEvents(c.Actor.ID, list, err)
	})
}
