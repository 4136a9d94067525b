package projections

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// How far a list of members is looked at.
const (
	// MembersPage is how many members are on a page at most.
	MembersPage = 1000
	// MembersOffset is how many members may come before a page: as many entries of
	// an index are read to get there.
	MembersOffset = 10_000
	// MembersFound is how many of the texts that begin as a search does are looked
	// at, the first in their order: up to as many members are found.
	MembersFound = 250
	// MembersFiltered is how many members, the first in the order, a filter finds and
	// counts.
	MembersFiltered = 10_000
	// MembersLookedThrough is how many members, the first in the order, are looked at by
	// a filter on something else.
	MembersLookedThrough = 1000
)

// A MemberQuery asks for a page of a workspace's members, by name unless
// OrderBy says otherwise. Roles, unless nil, Q and Filter narrow it unless empty; Q is
// what a name, a word in it, an address or its domain begins with. A filter and a
// search go with nothing else. A page by name may begin after a cursor.
type MemberQuery struct {
	Workspace     events.ID
	Roles         []events.Role
	Q             string
	Filter        MemberFilter
	OrderBy       MemberField
	Descending    bool
	After         *MemberCursor
	Limit, Offset int
}

// A MemberCursor is where a member is in the order of names.
type MemberCursor struct {
	key    string
	member events.ID
}

// String returns the cursor in the form that callers have.
func (c MemberCursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append(c.member[:], c.key...))
}

// ParseMemberCursor reads what String returned.
func ParseMemberCursor(text string) (c MemberCursor, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	n := copy(c.member[:], raw)
	if err != nil || n < len(c.member) || !utf8.Valid(raw[n:]) || slices.Contains(raw[n:], 0) {
		return c, false
	}
	c.key = string(raw[n:])
	return c, true
}

// A MemberField is what members can be ordered by and compared in. Its value is
// the column.
type MemberField string

// The fields. Names and roles are there to order by alone.
const (
	MemberByName   MemberField = "name_key"
	MemberByID     MemberField = "member_id"
	MemberByUser   MemberField = "user_id"
	MemberByRole   MemberField = "role"
	MemberByJoined MemberField = "joined_at"
)

// sqlType is what a field's values are in SQL.
func (f MemberField) sqlType() string {
	if f == MemberByJoined {
		return "timestamptz"
	}
	return "uuid"
}

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
// an id or a time as the field wants it, a list of them, or a part of an id. The
// zero filter keeps all.
type MemberFilter struct {
	Field    MemberField
	Operator Operator
	Value    any
}

// Ranges reports whether f keeps what is less or more than a value.
func (f MemberFilter) Ranges() bool {
	switch f.Operator {
	case Less, LessEqual, Greater, GreaterEqual:
		return true
	}
	return false
}

// indexed reports whether an index leads to those that the filter keeps, in an
// order or because they are few, or whether it keeps nearly all.
func (f MemberFilter) indexed(order MemberField) bool {
	switch f.Operator {
	case Less, LessEqual, Greater, GreaterEqual: // see Ranges
		return f.Field == order
	case Contains, StartsWith, EndsWith:
		return false
	}
	return true
}

// Page answers q, and how many members there are on all pages: of a search or a
// filter, among those that it looks at. Of a page by name, next is where the
// following one begins, nil if there is none.
//
// It finds the ids of the page in an index: what else is shown of members is read
// of those alone.
func (v Members) Page(ctx context.Context, q MemberQuery) (list []Member, total int, next *MemberCursor, err error) {
	counts, counted := q.counts()
	page, args := q.page()
	b := &pgx.Batch{}
	b.Queue(counts, counted...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	b.Queue(page, args...).Query(func(rows pgx.Rows) error {
		list, next, err = scanMembers(rows, q.Limit)
		return err
	})
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, nil, fmt.Errorf("members of %s: %w", q.Workspace, err)
	}
	return list, total, next, nil
}

// scanMembers reads a page, and where its last member is if another one follows.
func scanMembers(rows pgx.Rows, limit int) (list []Member, next *MemberCursor, err error) {
	type row struct {
		Member
		NameKey string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if len(found) > limit && limit > 0 {
		next = &MemberCursor{found[limit-1].NameKey, found[limit-1].ID}
	}
	for _, r := range found[:min(limit, len(found))] {
		list = append(list, r.Member)
	}
	return list, next, err
}
