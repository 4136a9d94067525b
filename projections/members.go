package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
)

// Members is the view of who is in which workspace. It is inline, so that a withdrawn role grants
// nothing after the command was answered.
type Members struct{ DB *pgxpool.Pool }

type memberRow struct {
	Workspace    events.ID   `db:"workspace_id"`
	ID           events.ID   `db:"member_id"`
	User         events.ID   `db:"user_id"`
	Email        string      `db:"email"`
	Name         string      `db:"name"` // empty if the log has none
	Role         events.Role `db:"role"`
	ApproveLoops *bool       `db:"approve_loops"` // nil means that the role decides
	JoinedAt     time.Time   `db:"joined_at"`
	NameKey      string      `db:"name_key"` // sort key
}

var members = &fold.Table[events.ID, memberRow]{
	View: "members", Updated: fold.Inline, Key: "member_id",
	Kinds: []string{"member"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return []events.ID{e.Member}
		case events.MemberRoleChanged:
			return []events.ID{e.Member}
		case events.MemberApproveLoopsSet:
			return []events.ID{e.Member}
		case events.MemberProfileChanged:
			return []events.ID{e.Member}
		case events.MemberLeft:
			return []events.ID{e.Member}
		case events.MemberRemoved:
			return []events.ID{e.Member}
		}
		return nil
	},
	Apply: func(id events.ID, m *memberRow, r events.Record) *memberRow {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return &memberRow{
				Workspace: r.Workspace, ID: id, User: e.User, Email: e.Email, Name: e.Name, Role: e.Role, JoinedAt: r.At,
				NameKey: memberSortKey(e.Name, e.Email),
			}
		case events.MemberRoleChanged:
			after := *m
			after.Role = e.To
			return &after
		case events.MemberApproveLoopsSet:
			after := *m
			after.ApproveLoops = &e.To
			return &after
		case events.MemberProfileChanged:
			after := *m
			after.Name, after.Email, after.NameKey = e.Name, e.Email, memberSortKey(e.Name, e.Email)
			return &after
		}
		return nil
	},
}

// A Member is a person in a workspace, as the Members & roles card shows it.
type Member struct {
	Workspace    events.ID
	ID           events.ID
	User         events.ID
	Name         string
	Email        string
	AvatarURL    string
	Role         events.Role
	ApproveLoops *bool
	JoinedAt     time.Time
	LastActiveAt *time.Time
}

// selectMembers returns the query of the members of a workspace, to which a condition on m can be added.
// The workspace is an SQL expression. Each table is compared with it, so that a database that is sharded by
// workspace finds the rows in one place.
func selectMembers(workspace string) string {
	return `
		select m.workspace_id, m.member_id, m.user_id, u.name, u.email, u.avatar_url, m.role, m.approve_loops, m.joined_at,
			a.last_active_at
		from members m
		join users u on u.user_id = m.user_id
		left join member_activity a on a.workspace_id = ` + workspace + ` and a.user_id = m.user_id
		where m.workspace_id = ` + workspace + ` `
}

// Get returns one member of a workspace. ok is false if there is none.
func (v Members) Get(ctx context.Context, workspace, member events.ID) (m Member, ok bool, err error) {
	return getOne(ctx, v.ByIDs, Ref{workspace, member})
}

// ByIDs returns members by their ids. Ids that do not exist are left out.
func (v Members) ByIDs(ctx context.Context, list []Ref) (map[Ref]Member, error) {
	workspaces, ids := columns(list)
	rows, _ := v.DB.Query(ctx, eachRef+selectMembers("k.workspace_id")+`and m.member_id = k.id offset 0) r`, workspaces, ids)
	return byKey(rows, func(m Member) Ref { return Ref{m.Workspace, m.ID} }, "members")
}

// A Ref is an id in a workspace.
type Ref struct{ Workspace, ID events.ID }

// eachRef looks up a row for each of several refs. "offset 0" keeps it from becoming a join, whose
// generic plan would read a whole table. The arrays are sub-selects so that their values are
// unknown to the planner, which would otherwise plan again each time.
const eachRef = `
	select r.* from unnest((select $1::uuid[]), (select $2::uuid[])) as k (workspace_id, id)
	cross join lateral (`

func columns(list []Ref) (workspaces, ids []events.ID) {
	for _, p := range list {
		workspaces, ids = append(workspaces, p.Workspace), append(ids, p.ID)
	}
	return workspaces, ids
}

// A Membership is a person's membership in one workspace.
type Membership struct {
	Workspace     events.ID
	User          events.ID
	WorkspaceSlug string
	Member        events.ID
	Role          events.Role
	ApproveLoops  *bool
}

// Membership returns the user's membership in a workspace. ok is false if there is none.
func (v Members) Membership(ctx context.Context, workspace, user events.ID) (m Membership, ok bool, err error) {
	return getOne(ctx, v.Memberships, Ref{workspace, user})
}

// Memberships returns the memberships of users in workspaces. Those that do not exist are left out.
func (v Members) Memberships(ctx context.Context, list []Ref) (map[Ref]Membership, error) {
	workspaces, users := columns(list)
	rows, _ := v.DB.Query(ctx, eachRef+memberships+`where m.workspace_id = k.workspace_id and m.user_id = k.id offset 0) r`, workspaces, users)
	return byKey(rows, func(m Membership) Ref { return Ref{m.Workspace, m.User} }, "memberships")
}

// maxStaleProfiles bounds the result of WorkspacesWithOtherProfile.
const maxStaleProfiles = 20

// WorkspacesWithOtherProfile returns workspaces, a few at a time, in which the user has another name or
// address than the given ones.
func (v Members) WorkspacesWithOtherProfile(ctx context.Context, user events.ID, name, email string) ([]events.ID, error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id from members where user_id = $1 and (name <> $2 or email <> $3) order by workspace_id
		limit $4`, user, name, email, maxStaleProfiles)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	return list, fault.Wrap(err, "list workspaces with another profile of %s", user)
}

const memberships = `
	select m.workspace_id, m.user_id, w.slug, m.member_id, m.role, m.approve_loops
	from members m join workspaces w on w.workspace_id = m.workspace_id `
