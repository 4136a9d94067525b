package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Workspaces is the view of all workspaces. It is inline.
type Workspaces struct{ DB *pgxpool.Pool }

// A Workspace is a row of the view.
type Workspace struct {
	ID        events.ID `db:"workspace_id"`
	Name      string    `db:"name"`
	Slug      string    `db:"slug"`
	CreatedAt time.Time `db:"created_at"`
}

var workspaces = &fold.Table[events.ID, Workspace]{
	View: "workspaces", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true,
	Kinds: []string{"workspace"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.WorkspaceCreated, events.WorkspaceRenamed, events.WorkspaceDeleted, events.WorkspaceRestored:
			return []events.ID{r.Workspace}
		}
		return nil
	},
	// A deleted workspace has no row, so that nobody is a member of it and its tokens belong nowhere.
	Apply: func(id events.ID, w *Workspace, r events.Record) *Workspace {
		switch e := r.Event.(type) {
		case events.WorkspaceCreated:
			return &Workspace{ID: id, Name: e.Name, Slug: e.Slug, CreatedAt: r.At}
		case events.WorkspaceDeleted:
			return nil
		case events.WorkspaceRestored:
			return &Workspace{ID: id, Name: e.Name, Slug: e.Slug, CreatedAt: id.Time()}
		case events.WorkspaceRenamed:
			after := *w
			after.Name, after.Slug = e.Name, e.Slug
			return &after
		}
		return w
	},
}

// Get returns a workspace by its id. ok is false if there is none.
func (v Workspaces) Get(ctx context.Context, id events.ID) (w Workspace, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `select workspace_id, name, slug, created_at from workspaces where workspace_id = $1`, id)
	return query.Optional[Workspace](rows, "workspace "+id.String())
}

// A Visit is a workspace with somebody's role in it, as of event Head of its log.
type Visit struct {
	Workspace
	Head         int64
	Role         events.Role
	ApproveLoops *bool
}

// Visit returns a workspace for a user. ok is false if they are not a member.
func (v Workspaces) Visit(ctx context.Context, id, user events.ID) (found Visit, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select w.workspace_id, w.name, w.slug, w.created_at, l.head, m.role, m.approve_loops
		from workspaces w
		join logs l on l.workspace_id = $1
		join members m on m.workspace_id = $1 and m.user_id = $2
		where w.workspace_id = $1`, id, user)
	return query.Optional[Visit](rows, "workspace "+id.String())
}

// maxPositionLag bounds how far a position may lie behind the head, because a client that follows from
// there receives all events since.
const maxPositionLag = 1000

// Position returns a number up to which every followed view has folded the log. A client
// that reads now and follows the log from there misses nothing. Views more than maxPositionLag events
// behind are ignored. The number is 0 if the database, which may be a replica, does not have the log yet.
func (v Workspaces) Position(ctx context.Context, id events.ID) (seq int64, err error) {
	err = v.DB.QueryRow(ctx, `
		select coalesce((
			select greatest(coalesce((
				select min(c.seq) from checkpoints c
				where c.workspace_id = $1 and c.view in (`+followedNames+`)), l.head), l.head - $2)
			from logs l where l.workspace_id = $1), 0)`, id, maxPositionLag).Scan(&seq)
	return seq, fault.Wrap(err, "read position of workspace %s", id)
}

// An OwnWorkspace is a workspace with the role that a person has there, and when they last used it: nil for never.
type OwnWorkspace struct {
	Workspace
	Role       events.Role `db:"role"`
	LastActive *time.Time  `db:"last_active_at"`
}

// ForMember returns the workspaces of a person, in the order in which they joined.
func (v Workspaces) ForMember(ctx context.Context, user events.ID, limit int) ([]OwnWorkspace, error) {
	rows, _ := v.DB.Query(ctx, `
		select w.workspace_id, w.name, w.slug, w.created_at, m.role, a.last_active_at
		from members m join workspaces w on w.workspace_id = m.workspace_id
		left join member_activity a on a.workspace_id = m.workspace_id and a.user_id = m.user_id
		where m.user_id = $1 order by m.joined_at, m.member_id limit $2`, user, limit)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[OwnWorkspace])
	return list, fault.Wrap(err, "read workspaces of %s", user)
}

// byKey collects rows into a map, by the key that of returns.
func byKey[K comparable, T any](rows pgx.Rows, of func(T) K, what string) (map[K]T, error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	found := make(map[K]T, len(list))
	for _, row := range list {
		found[of(row)] = row
	}
	return found, nil
}

// getOne calls a lookup of many keys for a single key.
func getOne[K comparable, V any](ctx context.Context, ask func(context.Context, []K) (map[K]V, error), key K) (v V, ok bool, err error) {
	found, err := ask(ctx, []K{key})
	v, ok = found[key]
	return v, ok, err
}
