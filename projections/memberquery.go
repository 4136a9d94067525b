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

// Bounds of the list of members.
const (
	// MaxMembersPage is the maximal number of members on a page.
	MaxMembersPage = 1000
	// MaxMembersOffset is the maximal offset of a page: that many index entries are read to get there.
	MaxMembersOffset = 10_000
	// MaxMembersFound is how many search texts with the given prefix are read, in their order. A search finds
	// at most as many members.
	MaxMembersFound = 250
	// MaxMembersFiltered is how many members a filter finds and counts, from the beginning of the order.
	MaxMembersFiltered = 10_000
	// MaxMembersScanned is how many members, from the beginning of the order, a filter scans that no
	// index supports.
	MaxMembersScanned = 1000
)

// A MemberQuery asks for a page of a workspace's members, ordered by name unless OrderBy says
// otherwise. Roles, Q and Filter narrow it unless nil or empty. Q is a prefix of a name, of a word
// in it, of an address or of its domain. Filter and Q exclude each other. A page in the order of
// names may begin after a cursor.
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

// A MemberCursor is the position of a member in the order of names.
type MemberCursor struct {
	key    string
	member events.ID
}

// String returns the cursor in the form that clients receive.
func (c MemberCursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append(c.member[:], c.key...))
}

// ParseMemberCursor parses the result of String.
func ParseMemberCursor(text string) (c MemberCursor, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	n := copy(c.member[:], raw)
	if err != nil || n < len(c.member) || !utf8.Valid(raw[n:]) || slices.Contains(raw[n:], 0) {
		return c, false
	}
	c.key = string(raw[n:])
	return c, true
}

// A MemberField is a field by which members can be ordered and filtered. Its value is the column.
type MemberField string

// The fields. Names and roles can only be used for ordering.
const (
	MemberByName   MemberField = "name_key"
	MemberByID     MemberField = "member_id"
	MemberByUser   MemberField = "user_id"
	MemberByRole   MemberField = "role"
	MemberByJoined MemberField = "joined_at"
)

// sqlType returns the SQL type of the field.
func (f MemberField) sqlType() string {
	if f == MemberByJoined {
		return "timestamptz"
	}
	return "uuid"
}

// An Operator is a format of an SQL condition: %[1]s is the field, %[2]s the value.
type Operator string

// The operators. In and NotIn take a list; the last three search for text.
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

// A MemberFilter selects the members whose Field compares with Value. Value is an id, a time, a
// list of them, or a part of an id, as the field and the operator require. The zero filter selects
// all.
type MemberFilter struct {
	Field    MemberField
	Operator Operator
	Value    any
}

// Ranges reports whether f compares by order.
func (f MemberFilter) Ranges() bool {
	switch f.Operator {
	case Less, LessEqual, Greater, GreaterEqual:
		return true
	}
	return false
}

// indexed reports whether f needs no scan: an index supports it, or it selects few or nearly all
// members.
func (f MemberFilter) indexed(order MemberField) bool {
	if f.Ranges() {
		return f.Field == order
	}
	switch f.Operator {
	case Contains, StartsWith, EndsWith:
		return false
	}
	return true
}

// Page answers q and returns the number of members on all pages. For a search or filter that is the
// number among the members that it examines. In the order of names, next is the cursor of the next
// page, or nil.
//
// It finds the ids of the page in an index and reads the other columns only for those.
func (v Members) Page(ctx context.Context, q MemberQuery) (list []Member, total int, next *MemberCursor, err error) {
	counts, counted := q.countSQL()
	page, args := q.pageSQL()
	b := &pgx.Batch{}
	b.Queue(counts, counted...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	b.Queue(page, args...).Query(func(rows pgx.Rows) error {
		list, next, err = scanMembers(rows, q.Limit)
		return err
	})
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return nil, 0, nil, fmt.Errorf("read members of %s: %w", q.Workspace, err)
	}
	return list, total, next, nil
}

// scanMembers reads a page, and the cursor of its last member if another one follows.
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
