package commands

import (
	"context"
	"fmt"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

// ErrEmailTaken says that an address belongs to another person.
var ErrEmailTaken = fault.New(fault.Conflict, "email_taken", "This e-mail address belongs to another person.")

// RegisterUser makes a person known, with a personal workspace that they own.
// The order's workspace is that of the personal one, which must be new.
type RegisterUser struct {
	Order         `json:"-"`
	User          events.ID `json:"userId"`
	Member        events.ID `json:"memberId"`
	Name          string    `json:"name"`
	Emails        []string  `json:"emails"` // verified, lower case, the primary one first
	AvatarURL     string    `json:"avatarUrl"`
	WorkspaceName string    `json:"workspaceName"`
	WorkspaceSlug string    `json:"workspaceSlug"`
}

// RegisterUser carries out the command of the same name.
func (h *Handler) RegisterUser(ctx context.Context, c RegisterUser) (Result, error) {
	return h.carry(ctx, c.Order, c, func(w *work) error {
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
			w.claim(events.Claim{Key: EmailKey(address), Owner: c.User, Global: true}, ErrEmailTaken)
		}
		w.claim(events.Claim{Key: SlugKey(c.WorkspaceSlug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
		list, err := user.Register(events.UserRegistered{User: c.User, Name: c.Name, Emails: c.Emails, AvatarURL: c.AvatarURL})
		if err := w.then(c.User, list, err); err != nil {
			return err
		}
		list, err = workspace.Create(c.WorkspaceName, c.WorkspaceSlug, events.MemberJoined{Member: c.Member, User: c.User, Email: c.Emails[0]})
		return w.then(c.Workspace, list, err)
	})
}

// EmailKey is the global key by which the holder of an address is found.
func EmailKey(address string) string { return "email/" + address }
