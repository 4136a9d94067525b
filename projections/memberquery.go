package projections

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
	"svc/input"
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
)

// A MemberQuery asks for a page of a workspace's members. Q and Role narrow it unless empty. Q is a
// prefix of a name, of a word in it, of an address or of its domain. Members are ordered by name or,
// unless Q is given, by when they joined. A page in the ascending order of names may begin after a cursor.
type MemberQuery struct {
	Workspace     events.ID
	Q             string
	Role          events.Role
	ByJoined      bool
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

// Page answers q and returns the number of members on all pages. In the order of
// names, next is the cursor of the next page, or nil.
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
	err = v.DB.SendBatch(ctx, b).Close()
	return list, total, next, fault.Wrap(err, "read members of %s", q.Workspace)
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

// A memberSQL is a statement about members under construction. Its first argument is the workspace.
type memberSQL struct {
	MemberQuery
	args []any
}

func (s *memberSQL) arg(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// countSQL returns the statement that counts the members of all pages.
func (q MemberQuery) countSQL() (sql string, args []any) {
	s := &memberSQL{q, []any{q.Workspace}}
	if q.Q != "" {
		sql = `select count(*) from (` + s.searchSQL() + `) m`
	} else {
		sql = `select coalesce(sum(members), 0) from member_counts m where workspace_id = $1` + s.roleCondition("m")
	}
	return sql, s.args
}

// pageSQL returns the statement that reads a page and one more member.
func (q MemberQuery) pageSQL() (sql string, args []any) {
	s := &memberSQL{q, []any{q.Workspace}}
	column, key, direction := "name_key", "p.name_key", ""
	if q.ByJoined && q.Q == "" {
		column, key = "joined_at", "''"
	}
	if q.Descending {
		direction = " desc"
	}
	var from string
	if q.Q != "" {
		from = `(` + s.searchSQL() + `) m where true`
	} else {
		from = `members m where m.workspace_id = $1` + s.roleCondition("m")
	}
	if q.After != nil && key != "''" && !q.Descending {
		from += fmt.Sprintf(` and (m.name_key, m.member_id) > (%s, %s)`, s.arg(q.After.key), s.arg(q.After.member))
	}
	order := func(of string) string {
		return fmt.Sprintf(`order by %[1]s.%[2]s%[3]s, %[1]s.member_id%[3]s`, of, column, direction)
	}
	sql = fmt.Sprintf(`select r.*, %s from (select m.%s, m.member_id from %s %s%s) p cross join lateral (`,
		key, column, from, order("m"), s.limit()) + selectMembers("$1") + `and m.member_id = p.member_id offset 0) r ` + order("p")
	return sql, s.args
}

// limit ends a page. It contains the number of rows as a literal, rounded up to one of a few sizes.
// With a parameter the planner would expect a tenth of all rows, or plan again each time.
func (s *memberSQL) limit() string {
	sql := fmt.Sprintf(` limit %d`, s.rowsToRead())
	if s.Offset > 0 {
		sql += ` offset ` + s.arg(s.Offset)
	}
	return sql
}

// rowsToRead returns how many members to read for a page, at least one more than it shows.
func (s *memberSQL) rowsToRead() int {
	for _, size := range []int{25, 100} {
		if s.Limit <= size {
			return size + 1
		}
	}
	return max(s.Limit, MaxMembersPage) + 1
}

// searchSQL returns the query of the members with a text that has the search as prefix.
func (s *memberSQL) searchSQL() string {
	text := input.SearchText(s.Q)
	end := text + "\U0010ffff"
	if text == "" { // blanks alone; every word begins with it
		end = ""
	}
	found := fmt.Sprintf(`
		select distinct name_key, member_id from (
			select name_key, member_id from member_words where workspace_id = $1 and word >= %s and word < %s
			order by word, name_key, member_id limit %d) w`, s.arg(text), s.arg(end), MaxMembersFound)
	if s.Role == "" {
		return found
	}
	// The role is compared outside, or PostgreSQL may read all members of the role for each that was found.
	return fmt.Sprintf(`
		select f.name_key, f.member_id from (%s) f cross join lateral (
			select o.role from members o where o.workspace_id = $1 and o.member_id = f.member_id offset 0) o where true%s`,
		found, s.roleCondition("o"))
}

func (s *memberSQL) roleCondition(of string) string {
	if s.Role == "" {
		return ""
	}
	return ` and ` + of + `.role = ` + s.arg(s.Role)
}
