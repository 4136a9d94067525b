package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// A DeletedWorkspace is a workspace that was deleted and is not purged yet.
type DeletedWorkspace struct {
	ID        events.ID `db:"workspace_id"`
	Name      string    `db:"name"`
	Slug      string    `db:"slug"`
	DeletedAt time.Time `db:"deleted_at"`
	DeletedBy string    `db:"deleted_by"` // name of who deleted it
	PurgeAt   time.Time `db:"purge_at"`
	Purging   bool      `db:"purging"` // it cannot be restored any more
}

var deletedWorkspaces = &fold.Table[events.ID, DeletedWorkspace]{
	View: "deleted_workspaces", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true,
	Kinds: []string{"workspace"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.WorkspaceDeleted, events.WorkspaceRestored, events.WorkspacePurgeBegan:
			return []events.ID{r.Workspace}
		}
		return nil
	},
	Apply: func(id events.ID, w *DeletedWorkspace, r events.Record) *DeletedWorkspace {
		switch e := r.Event.(type) {
		case events.WorkspaceDeleted:
			return &DeletedWorkspace{ID: id, Name: e.Name, Slug: e.Slug, DeletedAt: r.At, DeletedBy: r.Actor.Name, PurgeAt: e.PurgeAt}
		case events.WorkspacePurgeBegan:
			after := *w
			after.Purging = true
			return &after
		}
		return nil
	},
}

// Restorable returns the deleted workspaces that a person can restore, those that are purged first at the head.
func (v Workspaces) Restorable(ctx context.Context, user events.ID, limit int) ([]DeletedWorkspace, error) {
	rows, _ := v.DB.Query(ctx, `
		select d.* from members m
		join deleted_workspaces d on d.workspace_id = m.workspace_id and not d.purging
		where m.user_id = $1 and m.role = any($2) order by d.purge_at, d.workspace_id limit $3`,
		user, events.DeleteWorkspace.Roles(), limit)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[DeletedWorkspace])
	return list, fault.Wrap(err, "read deleted workspaces of %s", user)
}

// GetDeleted returns a deleted workspace by its id. ok is false if there is none.
func (v Workspaces) GetDeleted(ctx context.Context, id events.ID) (w DeletedWorkspace, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, name, slug, deleted_at, deleted_by, purge_at, purging from deleted_workspaces where workspace_id = $1`, id)
	return query.Optional[DeletedWorkspace](rows, "deleted workspace "+id.String())
}

// DeletedMembership returns the user's membership in a deleted workspace that can be restored. ok is false if there is none.
func (v Workspaces) DeletedMembership(ctx context.Context, workspace, user events.ID) (m Membership, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select m.workspace_id, m.user_id, d.slug, m.member_id, m.role, m.approve_loops
		from deleted_workspaces d join members m on m.workspace_id = $1 and m.user_id = $2
		where d.workspace_id = $1 and not d.purging`, workspace, user)
	return query.Optional[Membership](rows, "deleted workspace "+workspace.String())
}
