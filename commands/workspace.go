package commands

import (
	"context"

	"svc/aggregates"
	"svc/commands/work"
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

func (CreateWorkspace) limit() *limit { return workspaces }

// CreateWorkspace refuses a slug that another workspace has.
func (h *Handler) CreateWorkspace(ctx context.Context, c CreateWorkspace) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			w.Claim(events.Claim{Key: events.SlugKey(c.Slug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
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
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			list, err := ws.Rename(c.Actor.ID, c.Name, c.Slug)
			for _, e := range list {
				if e, ok := e.(events.WorkspaceRenamed); ok && e.Slug != e.FromSlug {
					w.Release(events.Claim{Key: events.SlugKey(e.FromSlug), Owner: c.Workspace, Global: true})
					w.Claim(events.Claim{Key: events.SlugKey(e.Slug), Owner: c.Workspace, Global: true}, aggregates.ErrSlugTaken)
				}
			}
			return list, err
		}))
}

// DeleteWorkspace deletes a workspace, whose name has to be given.
type DeleteWorkspace struct {
	Meta `json:"-"`
	Name string `json:"name"`
}

func (c DeleteWorkspace) denial() events.CommandDenied {
	return denialOf(events.WorkspaceDeleted{}, c.Workspace)
}

func (DeleteWorkspace) limit() *limit { return ending }

// DeleteWorkspace refuses everybody but Owners, another name, and a person's own workspace, in whose log the person is.
func (h *Handler) DeleteWorkspace(ctx context.Context, c DeleteWorkspace) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			list, err := ws.Delete(c.Actor.ID, c.Name, w.Now)
			if err != nil {
				return nil, err
			}
			err = work.Inspect(w, ws.Creator(), func(u *aggregates.User) error {
				if len(u.Emails()) > 0 {
					return aggregates.ErrPersonal
				}
				return nil
			})
			return list, err
		}))
}

// RestoreWorkspace restores a workspace that was deleted.
type RestoreWorkspace struct {
	Meta `json:"-"`
}

func (c RestoreWorkspace) denial() events.CommandDenied {
	return denialOf(events.WorkspaceRestored{}, c.Workspace)
}

// RestoreWorkspace refuses everybody but Owners, and workspaces whose time is over. It does nothing if the workspace was not deleted.
func (h *Handler) RestoreWorkspace(ctx context.Context, c RestoreWorkspace) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			return ws.Undelete(c.Actor.ID, w.Now)
		}))
}

// PurgeWorkspace ends the time in which a deleted workspace can be restored.
type PurgeWorkspace struct{ Meta }

// PurgeWorkspace refuses a workspace that can still be restored.
func (h *Handler) PurgeWorkspace(ctx context.Context, c PurgeWorkspace) (Result, error) {
	return h.Execute(ctx, c.Meta, c, work.On(c.Workspace,
		func(w *work.Unit, ws *aggregates.Workspace) ([]events.Event, error) {
			return ws.Purge(w.Now)
		}))
}

// WorkspaceDeleted is the reason for ending what goes on in a deleted workspace.
const WorkspaceDeleted = "workspace_deleted"

// StopRun stops a run of a deleted workspace.
type StopRun struct {
	Meta
	Run events.ID
}

// StopRun does nothing if the workspace was not deleted, or the run has ended.
func (h *Handler) StopRun(ctx context.Context, c StopRun) (Result, error) {
	return h.Execute(ctx, c.Meta, c, func(w *work.Unit) error {
		deleted, err := factOf(w, c.Workspace, (*aggregates.Workspace).Deleted)
		if err != nil || !deleted {
			return err
		}
		return onRun(c.Run, func(_ *work.Unit, run *aggregates.Run) ([]events.Event, error) {
			if run.Over() {
				return nil, nil
			}
			return run.Cancel(WorkspaceDeleted)
		})(w)
	})
}
