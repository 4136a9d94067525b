package projections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"svc/events"
	"svc/input"
)

// A memberSQL is a statement about members under construction. Its first argument is the workspace.
type memberSQL struct {
	MemberQuery
	by   MemberField
	args []any
}

func (q MemberQuery) statement() *memberSQL {
	by := cmp.Or(q.OrderBy, MemberByName)
	if by == MemberByRole && (q.Q != "" || q.Filter.Field != "") { // no index supports that order
		by = MemberByName
	}
	return &memberSQL{MemberQuery: q, by: by, args: []any{q.Workspace}}
}

func (s *memberSQL) arg(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// countSQL returns the statement that counts the members of all pages.
func (q MemberQuery) countSQL() (sql string, args []any) {
	s := q.statement()
	switch {
	case q.Q != "":
		sql = `select count(*) from (` + s.searchSQL() + `) m`
	case q.Filter.Field != "":
		sql = `select count(*) from (` + s.filterSQL() + `) m`
	default:
		sql = `select coalesce(sum(members), 0) from member_counts where workspace_id = $1`
		if q.Roles != nil {
			sql += ` and role = any(` + s.arg(q.Roles) + `)`
		}
	}
	return sql, s.args
}

// pageSQL returns the statement that reads a page and one more member.
func (q MemberQuery) pageSQL() (sql string, args []any) {
	s := q.statement()
	var ids string
	switch ordered := s.by == MemberByName || s.by == MemberByRole; {
	case q.Q != "":
		ids = `select * from (` + s.searchSQL() + `) m where true` + s.afterCursor()
	case q.Filter.Field != "":
		ids = `select * from (` + s.filterSQL() + `) m`
	case ordered && (q.Roles != nil || s.by == MemberByRole):
		ids = s.rolesSQL()
	case q.Roles != nil:
		ids = `select ` + s.columns("m") + ` from members m where m.workspace_id = $1 and ` + s.roleCondition("m")
	default:
		ids = `select ` + s.columns("m") + ` from members m where m.workspace_id = $1` + s.afterCursor()
	}
	key := `''`
	if s.by == MemberByName {
		key = `p.name_key`
	}
	sql = fmt.Sprintf(`select r.*, %s from (%s order by %s%s) p cross join lateral (`, key, ids, s.order("m"), s.limit()) +
		selectMembers("$1") + `and m.member_id = p.member_id offset 0) r order by ` + s.order("p")
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
	if s.Roles == nil {
		return found
	}
	return fmt.Sprintf(`
		select f.name_key, f.member_id from (%s) f cross join lateral (
			select from members o where o.workspace_id = $1 and o.member_id = f.member_id and %s offset 0) o`, found, s.roleCondition("o"))
}

// filterSQL returns the query of the members that the filter selects.
func (s *memberSQL) filterSQL() string {
	f, columns := s.Filter, s.columns("m")
	value := s.arg(f.Value)
	kept := fmt.Sprintf(string(f.Operator), "m."+string(f.Field), value)
	switch {
	case f.Operator == In: // one lookup for each value; the planner would scan all members in order
		return fmt.Sprintf(`
			select distinct %[1]s from unnest((select %[2]s::%[3]s[])) as k (value)
			cross join lateral (select * from members m where m.workspace_id = $1 and m.%[4]s = k.value offset 0) m`,
			columns, value, f.Field.sqlType(), f.Field)
	case f.indexed(s.by):
		return fmt.Sprintf(`
			select %s from members m where m.workspace_id = $1 and %s order by %s limit %d`, columns, kept, s.order("m"), MaxMembersFiltered)
	}
	return fmt.Sprintf(`
		select %s from (select %[1]s from members m where m.workspace_id = $1 order by %s limit %d) m
		cross join lateral (select from members o where o.workspace_id = $1 and o.member_id = m.member_id and %s offset 0) o`,
		columns, s.order("m"), MaxMembersScanned, strings.ReplaceAll(kept, "m.", "o."))
}

// roleCondition returns the condition that selects the roles. It has them as literals, because the planner
// knows how many members have a role only then, and would otherwise read and sort all.
func (s *memberSQL) roleCondition(of string) string {
	list := []string{`''`}
	for _, role := range events.Roles() {
		if slices.Contains(s.Roles, role) {
			list = append(list, `'`+string(role)+`'`)
		}
	}
	return of + `.role in (` + strings.Join(list, `, `) + `)`
}

// rolesSQL returns the query of the members with the roles. It merges the first members of each role
// by name, which is the order of an index.
func (s *memberSQL) rolesSQL() string {
	limit := fmt.Sprint(s.rowsToRead())
	if s.Offset > 0 {
		limit = s.arg(s.Offset + s.rowsToRead())
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
			i, role, s.afterCursor(), names.order("m"), limit))
	}
	if parts == nil {
		parts = []string{`select 0 as part, m.name_key, m.member_id from members m where false`}
	}
	return `select * from (` + strings.Join(parts, ` union all `) + `) m`
}

// afterCursor returns the condition that selects members after the cursor.
func (s *memberSQL) afterCursor() string {
	if s.After == nil || s.by != MemberByName || s.Descending {
		return ``
	}
	return fmt.Sprintf(` and (m.name_key, m.member_id) > (%s, %s)`, s.arg(s.After.key), s.arg(s.After.member))
}

// orderColumns returns the columns of the order, matching an index.
func (s *memberSQL) orderColumns() []string {
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
	for _, c := range s.orderColumns() {
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
