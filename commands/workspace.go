package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// CreateWorkspace creates a workspace that the actor owns. The workspace of Meta is the new
// one.
type CreateWorkspace struct {
	Meta   `json:"-"`
	Member events.ID `json:"memberId"` // the Owner's member id
	Email  string    `json:"email"`    // the Owner's address
	Person string    `json:"-"`        // the Owner's name
	Name   string    `json:"name"`
	Slug   string    `json:"slug"`
}

// CreateWorkspace refuses a slug that another workspace has.
func (h *Handler) CreateWorkspace(ctx context.Context, c CreateWorkspace) (Result, error) {
	return h.execute(ctx, c.Meta, c, onStream(c.Workspace,
		func(_ context.Context, w *work, ws *aggregates.Workspace) ([]events.Event, error) {
			w.claim(events.Claim{Key: events.SlugKey(c.Slug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
			return ws.Create(c.Name, c.Slug,
				events.MemberJoined{Member: c.Member, User: c.Actor.ID, Email: c.Email, Name: c.Person})
		}))
}

// RenameWorkspace changes a workspace's name, slug or both. nil leaves a value as it is.
// The old slug can be used by another workspace.
type RenameWorkspace struct {
	Meta `json:"-"`
	Name *string `json:"name"`
	Slug *string `json:"slug"`
}

func (c RenameWorkspace) denial() events.CommandDenied {
	return denialOf(events.WorkspaceRenamed{}, c.Workspace)
}

// RenameWorkspace refuses a slug that another workspace has, and everybody but Owners.
func (h *Handler) RenameWorkspace(ctx context.Context, c RenameWorkspace) (Result, error) {
	return h.execute(ctx, c.Meta, c, onStream(c.Workspace,
		func(_ context.Context, w *work, ws *aggregates.Workspace) ([]events.Event, error) {
			list, err := ws.Rename(c.Actor.ID, c.Name, c.Slug)
			for _, e := range list {
				if e, ok := e.(events.WorkspaceRenamed); ok && e.Slug != e.FromSlug {
					w.releases = append(w.releases, events.Claim{Key: events.SlugKey(e.FromSlug), Owner: c.Workspace, Global: true})
					w.claim(events.Claim{Key: events.SlugKey(e.Slug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
				}
			}
			return list, err
		}))
}
