package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"svc/events"
)

// A memberSQL is a statement about members that is being written. Its first
// argument is the workspace.
type memberSQL struct {
	MemberQuery
	by   MemberField
	args []any
}

func (q MemberQuery) statement() *memberSQL {
	by := cmp.Or(q.OrderBy, MemberByName)
	if by == MemberByRole && (q.Q != "" || q.Filter.Field != "") { // which no index leads to
		by = MemberByName
	}
	return &memberSQL{MemberQuery: q, by: by, args: []any{q.Workspace}}
}

func (s *memberSQL) given(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// counts returns what counts the members of all pages.
func (q MemberQuery) counts() (sql string, args []any) {
	s := q.statement()
	switch {
	case q.Q != "":
		sql = `select count(*) from (` + s.found() + `) m`
	case q.Filter.Field != "":
		sql = `select count(*) from (` + s.filtered() + `) m`
	default:
		sql = `select coalesce(sum(members), 0) from member_counts where workspace_id = $1`
		if q.Roles != nil {
			sql += ` and role = any(` + s.given(q.Roles) + `)`
		}
	}
	return sql, s.args
}

// page returns what reads a page, with one member more.
func (q MemberQuery) page() (sql string, args []any) {
	s := q.statement()
	var ids string
	switch ordered := s.by == MemberByName || s.by == MemberByRole; {
	case q.Q != "":
		ids = `select * from (` + s.found() + `) m where true` + s.after()
	case q.Filter.Field != "":
		ids = `select * from (` + s.filtered() + `) m`
	case ordered && (q.Roles != nil || s.by == MemberByRole):
		ids = s.ofRoles()
	case q.Roles != nil:
		ids = `select ` + s.columns("m") + ` from members m where m.workspace_id = $1 and ` + s.ofRole("m")
	default:
		ids = `select ` + s.columns("m") + ` from members m where m.workspace_id = $1` + s.after()
	}
	key := `''`
	if s.by == MemberByName {
		key = `p.name_key`
	}
	sql = fmt.Sprintf(`select r.*, %s from (%s order by %s%s) p cross join lateral (`, key, ids, s.order("m"), s.limit()) +
		selectMembers + `where m.workspace_id = $1 and m.member_id = p.member_id offset 0) r order by ` + s.order("p")
	return sql, s.args
}

// limit ends a page. It says literally how many members are read, if need be more
// than are wanted: not knowing that, the planner would expect a tenth of all, or plan
// anew each time.
func (s *memberSQL) limit() string {
	sql := fmt.Sprintf(` limit %d`, s.size())
	if s.Offset > 0 {
		sql += ` offset ` + s.given(s.Offset)
	}
	return sql
}

// size is how many members are read for a page, one more than it has.
func (s *memberSQL) size() int {
	for _, size := range []int{25, 100} {
		if s.Limit <= size {
			return size + 1
		}
	}
	return max(s.Limit, MembersPage) + 1
}

// found is who has a text that begins as the search does.
func (s *memberSQL) found() string {
	text := foldedText(s.Q)
	found := fmt.Sprintf(`
		select distinct name_key, member_id from (
			select name_key, member_id from member_words where workspace_id = $1 and word >= %s and word < %s
			order by word, name_key, member_id limit %d) w`, s.given(text), s.given(text+"\U0010ffff"), MembersFound)
	if s.Roles == nil {
		return found
	}
	return fmt.Sprintf(`
		select f.name_key, f.member_id from (%s) f cross join lateral (
			select from members o where o.workspace_id = $1 and o.member_id = f.member_id and %s offset 0) o`, found, s.ofRole("o"))
}

// filtered is who is kept by the filter.
func (s *memberSQL) filtered() string {
	f, columns := s.Filter, s.columns("m")
	value := s.given(f.Value)
	kept := fmt.Sprintf(string(f.Operator), "m."+string(f.Field), value)
	switch {
	case f.Operator == In: // each is looked up by itself: or the planner would go through all in the order
		return fmt.Sprintf(`
			select distinct %[1]s from unnest((select %[2]s::%[3]s[])) as k (value)
			cross join lateral (select * from members m where m.workspace_id = $1 and m.%[4]s = k.value offset 0) m`,
			columns, value, f.Field.sqlType(), f.Field)
	case f.indexed(s.by):
		return fmt.Sprintf(`
			select %s from members m where m.workspace_id = $1 and %s order by %s limit %d`, columns, kept, s.order("m"), MembersFiltered)
	}
	return fmt.Sprintf(`
		select %s from (select %[1]s from members m where m.workspace_id = $1 order by %s limit %d) m
		cross join lateral (select from members o where o.workspace_id = $1 and o.member_id = m.member_id and %s offset 0) o`,
		columns, s.order("m"), MembersLookedThrough, strings.ReplaceAll(kept, "m.", "o."))
}

// ofRole keeps those who have one of the roles. That says literally which: the planner
// knows how many have a role if it knows which, and else reads and sorts them all.
func (s *memberSQL) ofRole(of string) string {
	list := []string{`''`}
	for _, role := range events.Roles() {
		if slices.Contains(s.Roles, role) {
			list = append(list, `'`+string(role)+`'`)
		}
	}
	return of + `.role in (` + strings.Join(list, `, `) + `)`
}

// ofRoles is who has one of the roles: the first of each by name, for that is the
// order that an index has.
func (s *memberSQL) ofRoles() string {
	limit := fmt.Sprint(s.size())
	if s.Offset > 0 {
		limit = s.given(s.Offset + s.size())
	}
	var parts []string
	for i, role := range events.Roles() {
		if s.Roles != nil && !slices.Contains(s.Roles, role) {
			continue
		}
		names := *s
		names.by = MemberByName
		parts = append(parts, fmt.Sprintf(`
			(select %d as part, m.name_key, m.member_id from members m where m.workspace_id = $1 and m.role = '%s'%s order by %s limit %s)`,
			i, role, s.after(), names.order("m"), limit))
	}
	if parts == nil {
		parts = []string{`select 0 as part, m.name_key, m.member_id from members m where false`}
	}
	return `select * from (` + strings.Join(parts, ` union all `) + `) m`
}

// after is what lies behind the cursor.
func (s *memberSQL) after() string {
	if s.After == nil || s.by != MemberByName || s.Descending {
		return ``
	}
	return fmt.Sprintf(` and (m.name_key, m.member_id) > (%s, %s)`, s.given(s.After.key), s.given(s.After.member))
}

// fields are the columns that order members, as an index does.
func (s *memberSQL) fields() []string {
	switch s.by {
	case MemberByID:
		return []string{"member_id"}
	case MemberByRole:
		return []string{"part", "name_key", "member_id"}
	}
	return []string{string(s.by), "member_id"}
}

func (s *memberSQL) columns(of string) string {
	var list []string
	for _, c := range s.fields() {
		list = append(list, of+"."+c)
	}
	return strings.Join(list, ", ")
}

func (s *memberSQL) order(of string) string {
	if !s.Descending {
		return s.columns(of)
	}
	return strings.ReplaceAll(s.columns(of), ",", " desc,") + " desc"
}
