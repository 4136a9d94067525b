package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections/fold"
)

// Members is the view of who is in which workspace. It is inline: a role that
// was taken away opens no door after the answer was sent.
type Members struct{ DB *pgxpool.Pool }

type memberRow struct {
	Workspace    events.ID   `db:"workspace_id"`
	ID           events.ID   `db:"member_id"`
	User         events.ID   `db:"user_id"`
	Email        string      `db:"email"`
	Name         string      `db:"name"` // empty where the log does not say
	Role         events.Role `db:"role"`
	ApproveLoops *bool       `db:"approve_loops"` // nil: the role decides
	JoinedAt     time.Time   `db:"joined_at"`
	NameKey      string      `db:"name_key"` // what members are ordered by
}

var members = &fold.Table[events.ID, memberRow]{
	View: "members", KeptBy: fold.Inline, Key: "member_id",
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
				NameKey: memberKey(e.Name, e.Email),
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
			after.Name, after.Email, after.NameKey = e.Name, e.Email, memberKey(e.Name, e.Email)
			return &after
		}
		return nil
	},
}

// A Member is a person in a workspace, as the Members & roles card shows them.
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

const selectMembers = `
	select m.workspace_id, m.member_id, m.user_id, u.name, u.email, u.avatar_url, m.role, m.approve_loops, m.joined_at, a.last_active_at
	from members m
	join users u on u.user_id = m.user_id
	left join member_activity a on a.workspace_id = m.workspace_id and a.user_id = m.user_id `

// Get returns one member of a workspace. ok is false if there is none.
func (v Members) Get(ctx context.Context, workspace, member events.ID) (m Member, ok bool, err error) {
	return one(ctx, v.ByIDs, Ref{workspace, member})
}

// ByIDs returns members by their ids. One is left out if there is none.
func (v Members) ByIDs(ctx context.Context, list []Ref) (map[Ref]Member, error) {
	workspaces, ids := columns(list)
	rows, _ := v.DB.Query(ctx, eachRef+selectMembers+`where m.workspace_id = k.workspace_id and m.member_id = k.id offset 0) r`, workspaces, ids)
	return byKey(rows, func(m Member) Ref { return Ref{m.Workspace, m.ID} }, "members")
}

// A Ref is an id in a workspace.
type Ref struct{ Workspace, ID events.ID }

// eachRef looks up a row for each of a list of them, which "offset 0" keeps from
// becoming a join that a plan for any list would read a whole table for. As
// arguments of their own the arrays would be known to the planner, which would plan
// anew each time.
const eachRef = `
	select r.* from unnest((select $1::uuid[]), (select $2::uuid[])) as k (workspace_id, id)
	cross join lateral (`

func columns(list []Ref) (workspaces, ids []events.ID) {
	for _, p := range list {
		workspaces, ids = append(workspaces, p.Workspace), append(ids, p.ID)
	}
	return workspaces, ids
}

// A Membership is a person's place in one workspace.
type Membership struct {
	Workspace    events.ID
	User         events.ID
	Slug         string
	Name         string
	Member       events.ID
	Role         events.Role
	ApproveLoops *bool
}

// Membership returns the user's place in a workspace. ok is false if they have none.
func (v Members) Membership(ctx context.Context, workspace, user events.ID) (m Membership, ok bool, err error) {
	return one(ctx, v.Memberships, Ref{workspace, user})
}

// Memberships returns the places of users in workspaces. One is left out if they
// have none.
func (v Members) Memberships(ctx context.Context, list []Ref) (map[Ref]Membership, error) {
	workspaces, users := columns(list)
	rows, _ := v.DB.Query(ctx, eachRef+memberships+`where m.workspace_id = k.workspace_id and m.user_id = k.id offset 0) r`, workspaces, users)
	return byKey(rows, func(m Membership) Ref { return Ref{m.Workspace, m.User} }, "memberships")
}

// MembershipsFor returns every workspace that the user is in, the oldest first.
func (v Members) MembershipsFor(ctx context.Context, user events.ID) ([]Membership, error) {
	rows, _ := v.DB.Query(ctx, memberships+`where m.user_id = $1 order by m.joined_at, m.member_id`, user)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Membership])
	if err != nil {
		return nil, fmt.Errorf("memberships of %s: %w", user, err)
	}
	return list, nil
}

// calledOtherwise is how many workspaces a person is told to at once.
const calledOtherwise = 20

// CalledOtherwise returns workspaces, a few at once, in which the user has another
// name or address than these.
func (v Members) CalledOtherwise(ctx context.Context, user events.ID, name, email string) ([]events.ID, error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id from members where user_id = $1 and (name <> $2 or email <> $3) order by workspace_id limit $4`, user, name, email, calledOtherwise)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, fmt.Errorf("workspaces that call %s otherwise: %w", user, err)
	}
	return list, nil
}

const memberships = `
	select m.workspace_id, m.user_id, w.slug, w.name, m.member_id, m.role, m.approve_loops
	from members m join workspaces w on w.workspace_id = m.workspace_id `
