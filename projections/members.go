package projections

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// Members is the view of who is in which workspace. It is inline: a role that
// was taken away opens no door after the answer was sent.
type Members struct{ DB *pgxpool.Pool }

type memberRow struct {
	Workspace    events.ID   `db:"workspace_id"`
	ID           events.ID   `db:"member_id"`
	User         events.ID   `db:"user_id"`
	Email        string      `db:"email"`
	Role         events.Role `db:"role"`
	ApproveLoops *bool       `db:"approve_loops"` // nil: the role decides
	JoinedAt     time.Time   `db:"joined_at"`
}

var members = &fold[events.ID, memberRow]{
	table: "members", key: "member_id",
	keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return []events.ID{e.Member}
		case events.MemberRoleChanged:
			return []events.ID{e.Member}
		case events.MemberApproveLoopsSet:
			return []events.ID{e.Member}
		case events.MemberLeft:
			return []events.ID{e.Member}
		case events.MemberRemoved:
			return []events.ID{e.Member}
		}
		return nil
	},
	apply: func(id events.ID, m *memberRow, r events.Record) *memberRow {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return &memberRow{Workspace: r.Workspace, ID: id, User: e.User, Email: e.Email, Role: e.Role, JoinedAt: r.At}
		case events.MemberRoleChanged:
			after := *m
			after.Role = e.To
			return &after
		case events.MemberApproveLoopsSet:
			after := *m
			after.ApproveLoops = &e.To
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

// A MemberQuery asks for a page of a workspace's members, by name unless
// OrderBy says otherwise. Role, Q and Filter narrow it unless empty; Q is
// looked for in names and addresses.
type MemberQuery struct {
	Workspace     events.ID
	Role          events.Role
	Q             string
	Filter        MemberFilter
	OrderBy       MemberField
	Descending    bool
	Limit, Offset int
}

// A MemberField is what members can be ordered by and compared in. Its value is
// the column.
type MemberField string

// The fields.
const (
	MemberByName   MemberField = "lower(u.name)"
	MemberByID     MemberField = "m.member_id"
	MemberByUser   MemberField = "m.user_id"
	MemberByRole   MemberField = "lower(m.role)"
	MemberByJoined MemberField = "m.joined_at"
)

// An Operator compares a field, the first verb, with a value, the second.
type Operator string

// The operators. In and NotIn take a list; the last three look for a text.
const (
	Equal        Operator = "%[1]s = %[2]s"
	NotEqual     Operator = "%[1]s <> %[2]s"
	Less         Operator = "%[1]s < %[2]s"
	LessEqual    Operator = "%[1]s <= %[2]s"
	Greater      Operator = "%[1]s > %[2]s"
	GreaterEqual Operator = "%[1]s >= %[2]s"
	In           Operator = "%[1]s = any(%[2]s)"
	NotIn        Operator = "%[1]s <> all(%[2]s)"
	Contains     Operator = "strpos(%[1]s::text, %[2]s) > 0"
	StartsWith   Operator = "starts_with(%[1]s::text, %[2]s)"
	EndsWith     Operator = "right(%[1]s::text, length(%[2]s)) = %[2]s"
)

// A MemberFilter keeps the members whose Field compares so with Value, which is
// an id, a time or a text as the field wants it, or a list of them. The zero filter
// keeps all.
type MemberFilter struct {
	Field    MemberField
	Operator Operator
	Value    any
}

const selectMembers = `
	select m.workspace_id, m.member_id, m.user_id, u.name, u.email, u.avatar_url, m.role, m.approve_loops, m.joined_at, a.last_active_at
	from members m
	join users u on u.user_id = m.user_id
	left join member_activity a on a.workspace_id = m.workspace_id and a.user_id = m.user_id `

// Page answers q, and how many members there are on all pages.
//
// It finds the ids of the page first: what else is shown of members is read of
// those alone, and people only where their names and addresses matter. What q
// leaves open is no part of the SQL, so that an index may answer the rest.
func (v Members) Page(ctx context.Context, q MemberQuery) (list []Member, total int, err error) {
	counts, page, args := q.sql()
	b := &pgx.Batch{}
	b.Queue(counts, args[:len(args)-2]...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	b.Queue(page, args...).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Member])
		return err
	})
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, fmt.Errorf("members of %s: %w", q.Workspace, err)
	}
	return list, total, nil
}

// sql returns what counts the members of all pages, and what reads one. The last two
// of args are for the page alone.
func (q MemberQuery) sql() (counts, page string, args []any) {
	given := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	const people = ` join users u on u.user_id = m.user_id`
	from, where := ` from members m`, ` where m.workspace_id = `+given(q.Workspace)
	if q.Role != "" {
		where += ` and m.role = ` + given(q.Role)
	}
	if q.Filter.Field != "" {
		where += ` and ` + fmt.Sprintf(string(q.Filter.Operator), q.Filter.Field, given(q.Filter.Value))
	}
	if q.Q != "" {
		from += people
		where += fmt.Sprintf(` and (strpos(lower(u.name), lower(%[1]s)) > 0 or strpos(lower(u.email), lower(%[1]s)) > 0)`, given(q.Q))
	}
	counts = `select count(*)` + from + where
	by, direction := cmp.Or(q.OrderBy, MemberByName), "asc"
	if q.Descending {
		direction = "desc"
	}
	if by == MemberByName && q.Q == "" {
		from += people
	}
	order := fmt.Sprintf(` order by %s %s, m.member_id %[2]s`, by, direction)
	page = fmt.Sprintf(`select r.* from (select m.member_id%s%s%s limit %s offset %s) p cross join lateral (`,
		from, where, order, given(q.Limit), given(q.Offset)) +
		selectMembers + `where m.workspace_id = $1 and m.member_id = p.member_id offset 0) r` +
		strings.NewReplacer("m.", "r.", "u.", "r.").Replace(order)
	return counts, page, args
}

// Of returns one member of a workspace. ok is false if there is none.
func (v Members) Of(ctx context.Context, workspace, member events.ID) (m Member, ok bool, err error) {
	return one(ctx, v.These, Place{workspace, member})
}

// These returns members by their ids. One is left out if there is none.
func (v Members) These(ctx context.Context, list []Place) (map[Place]Member, error) {
	workspaces, ids := columns(list)
	rows, _ := v.DB.Query(ctx, eachPlace+selectMembers+`where m.workspace_id = k.workspace_id and m.member_id = k.id offset 0) r`, workspaces, ids)
	return byKey(rows, func(m Member) Place { return Place{m.Workspace, m.ID} }, "members")
}

// A Place is an id in a workspace.
type Place struct{ Workspace, ID events.ID }

// eachPlace looks up a row for each of a list of them, which "offset 0" keeps from
// becoming a join that a plan for any list would read a whole table for. As
// arguments of their own the arrays would be known to the planner, which would plan
// anew each time.
const eachPlace = `
	select r.* from unnest((select $1::uuid[]), (select $2::uuid[])) as k (workspace_id, id)
	cross join lateral (`

func columns(list []Place) (workspaces, ids []events.ID) {
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
	return one(ctx, v.Memberships, Place{workspace, user})
}

// Memberships returns the places of users in workspaces. One is left out if they
// have none.
func (v Members) Memberships(ctx context.Context, list []Place) (map[Place]Membership, error) {
	workspaces, users := columns(list)
	rows, _ := v.DB.Query(ctx, eachPlace+memberships+`where m.workspace_id = k.workspace_id and m.user_id = k.id offset 0) r`, workspaces, users)
	return byKey(rows, func(m Membership) Place { return Place{m.Workspace, m.User} }, "memberships")
}

// MembershipsOf returns every workspace that the user is in, the oldest first.
func (v Members) MembershipsOf(ctx context.Context, user events.ID) ([]Membership, error) {
	rows, _ := v.DB.Query(ctx, memberships+`where m.user_id = $1 order by m.joined_at, m.member_id`, user)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Membership])
	if err != nil {
		return nil, fmt.Errorf("memberships of %s: %w", user, err)
	}
	return list, nil
}

const memberships = `
	select m.workspace_id, m.user_id, w.slug, w.name, m.member_id, m.role, m.approve_loops
	from members m join workspaces w on w.workspace_id = m.workspace_id `
