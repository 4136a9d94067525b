package plans_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// A schema finds statements that touch a table of workspaces without naming the workspace, and parameters that
// hide a partial index.
//
// Once the database is sharded by workspace, a statement goes to a single node if it has the condition
// workspace_id = $n for each table of workspaces in it. Whether it has is read from its plan. PostgreSQL has
// then resolved names, and derived w.workspace_id = $1 from "m.workspace_id = $1 and w.workspace_id =
// m.workspace_id"; Citus decides by the conditions that this planner has found. A check of the text would have
// to parse SQL and to derive them again. The plans are generic: in a plan for certain arguments these take the
// place of the parameters, and conditions that they decide are gone.
type schema struct {
	conn   *pgx.Conn
	tables map[string]int            // of workspaces: those whose primary key begins with workspace_id; its place among the columns
	hiding map[string]*regexp.Regexp // by table: a parameter that is compared with a column of a partial index's predicate
}

func newSchema(t *testing.T, url string) *schema {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(t.Context())) })
	_, err = conn.Exec(t.Context(), `set plan_cache_mode = force_generic_plan`)
	require.NoError(t, err)
	s := &schema{conn: conn, tables: map[string]int{}, hiding: map[string]*regexp.Regexp{}}

	var table string
	var place int
	rows, _ := conn.Query(t.Context(), `
		select c.relname::text, a.attnum::int - 1 from pg_index i join pg_class c on c.oid = i.indrelid
		join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
		where i.indisprimary and a.attname = 'workspace_id'`)
	_, err = pgx.ForEachRow(rows, []any{&table, &place}, func() error { s.tables[table] = place; return nil })
	require.NoError(t, err)

	// Any comparison implies that the column is not null.
	var columns string
	rows, _ = conn.Query(t.Context(), `
		select c.relname::text, string_agg(distinct a.attname, '|') from pg_index i join pg_class c on c.oid = i.indrelid
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
		where regexp_replace(pg_get_expr(i.indpred, i.indrelid), '\w+ IS (NOT )?NULL', '', 'g') ~ ('\m' || a.attname || '\M')
		group by 1`)
	_, err = pgx.ForEachRow(rows, []any{&table, &columns}, func() error {
		s.hiding[table] = regexp.MustCompile(
			`\b(?:` + columns + `) [<>=]+ (?:ANY |ALL )?\(*(?:ARRAY\[)?\$\d+|\$\d+ [<>=]+ (?:\w+\.)?(?:` + columns + `)\b`)
		return nil
	})
	require.NoError(t, err)
	return s
}

// shift is added to the numbers of parameters, because in plans PostgreSQL before 17 writes the results of
// sub-selects as $0, $1 and so on.
const shift = 100

var (
	parameter = regexp.MustCompile(`\$(\d+)`)
	named     = regexp.MustCompile(`^\(?(?:\w+\.)?workspace_id = \$\d{3,}\)?$`)
	given     = regexp.MustCompile(`^\$\d{3,}$|^"\*VALUES\*"\.column\d+$`)
)

// explain returns the generic plan of a statement, or PostgreSQL's error if that is no whole statement.
func (s *schema) explain(t *testing.T, sql string) (node, error) {
	t.Helper()
	ctx, most := t.Context(), 0
	sql = parameter.ReplaceAllStringFunc(sql, func(p string) string {
		var n int
		_, err := fmt.Sscanf(p, "$%d", &n)
		require.NoError(t, err)
		most = max(most, n)
		return fmt.Sprintf("$%d", shift+n)
	})
	types := strings.Repeat("int, ", shift) + strings.Repeat("unknown, ", most) + "int"
	if _, err := s.conn.Exec(ctx, `prepare asked (`+types+`) as `+sql); err != nil {
		return node{}, err
	}
	var text string
	arguments := strings.Repeat("null, ", shift+most) + "null"
	err := s.conn.QueryRow(ctx, `explain (verbose, costs off, format json) execute asked (`+arguments+`)`).Scan(&text)
	require.NoError(t, err, sql)
	_, err = s.conn.Exec(ctx, `deallocate asked`)
	require.NoError(t, err)
	var list []struct{ Plan node }
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	return list[0].Plan, nil
}

// unnamed returns the tables of workspaces that a plan reads or writes without naming the workspace, in order.
// A row that is inserted names it by a parameter. Those of a list of several VALUES pass: no plan shows them.
func (s *schema) unnamed(plan node) (list []string) {
	plan.all(func(n node) {
		place, ok := s.tables[n.Table]
		switch {
		case !ok || n.Type == "ModifyTable" && n.Operation != "Insert": // the rows to change are read below
		case n.Type == "ModifyTable":
			for _, from := range n.Plans {
				if from.Relation == "Outer" && !given.MatchString(from.Output[place]) {
					list = append(list, "insert into "+n.Table)
				}
			}
		case !slices.ContainsFunc(n.conditions(), named.MatchString):
			list = append(list, n.Table)
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// hidden returns the conditions that hide a partial index: they have a parameter where its predicate has a
// constant, so that no generic plan can use it.
func (s *schema) hidden(plan node) (list []string) {
	plan.all(func(n node) {
		if hides := s.hiding[n.Table]; hides != nil {
			list = append(list, hides.FindAllString(n.Condition+n.Recheck+n.Filter, -1)...)
		}
	})
	return list
}

// conditions returns what each row of a scan must meet.
func (n node) conditions() (list []string) {
	for _, c := range []string{n.Condition, n.Recheck, n.Filter} {
		list = append(list, conjuncts(c)...)
	}
	return list
}

// conjuncts splits "((a = 1) AND (b = 2))".
func conjuncts(condition string) (list []string) {
	c := strings.TrimSuffix(strings.TrimPrefix(condition, "("), ")")
	depth, start, quoted := 0, 0, false
	for i := range c {
		switch {
		case c[i] == '\'':
			quoted = !quoted
		case quoted:
		case c[i] == '(':
			depth++
		case c[i] == ')':
			depth--
		case depth == 0 && strings.HasPrefix(c[i:], " AND "):
			list, start = append(list, c[start:i]), i+len(" AND ")
		}
	}
	return append(list, c[start:])
}

// problems explains the statements that were carried out, and those in the source that were not, and says what is
// wrong with them and with the exceptions. carriedOut has statements as they were sent, by their text in one line.
func (s *schema) problems(t *testing.T, carriedOut map[string]string, source []written, exceptions []exception) (list []string) {
	t.Helper()
	needed := make([]bool, len(exceptions))
	excepted := func(sql, file string) (ok bool) {
		for i, e := range exceptions {
			if e.of(sql, file) {
				needed[i], ok = true, true
			}
		}
		return ok
	}
	judge := func(plan node, at, sql, file string) {
		if tables := s.unnamed(plan); tables != nil && !excepted(sql, file) {
			list = append(list, fmt.Sprintf("%s: no workspace_id = $n for %s: %s", at, strings.Join(tables, ", "), sql))
		}
		for _, condition := range s.hidden(plan) {
			list = append(list, fmt.Sprintf("%s: %s hides a partial index: %s", at, condition, sql))
		}
	}
	statements := slices.Sorted(maps.Keys(carriedOut))
	for _, sql := range statements {
		plan, err := s.explain(t, carriedOut[sql])
		require.NoError(t, err, sql)
		var most written // of the statement
		for _, w := range source {
			if w.in(sql) && len(w.text()) > len(most.text()) {
				most = w
			}
		}
		judge(plan, most.at, sql, "")
	}
	for _, w := range source {
		if slices.ContainsFunc(statements, w.in) {
			continue
		}
		if plan, err := s.explain(t, w.sql); err == nil {
			judge(plan, w.at, w.text(), w.file)
		} else if !excepted(w.text(), w.file) {
			list = append(list, fmt.Sprintf("%s: not carried out here, and a part of a statement: %v", w.at, err))
		}
	}
	for i, e := range exceptions {
		if !needed[i] {
			list = append(list, fmt.Sprintf("an exception of nothing: %+v", e))
		}
	}
	return list
}

// small returns a schema of three tables, of which people is in no workspace.
func small(t *testing.T) *schema {
	t.Helper()
	url := pgtest.Empty(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `
		create table notes (workspace_id uuid, id int, state text, due date, primary key (workspace_id, id));
		create index notes_open on notes (workspace_id, id) where state = 'open' and due is not null;
		create table tags (workspace_id uuid, id int, note int, primary key (workspace_id, id));
		create table people (id int primary key, workspace_id uuid)`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return newSchema(t, url)
}

func TestTablesWhoseWorkspaceIsNotNamed(t *testing.T) {
	s := small(t)
	for want, statements := range map[string][]string{
		"": {
			`select from notes where workspace_id = $1`,
			`select from notes where id = $2 and workspace_id = $1 and (state = 'a' or due is null)`,
			`select from notes where (workspace_id, id) = ($1, $2)`,
			`select state from notes where workspace_id = $1 and id = any($2)`,
			`select (select max(id) from tags where workspace_id = $1), (select max(id) from notes where workspace_id = $1)`,
			`select t.id from notes n join tags t on t.workspace_id = n.workspace_id and t.note = n.id where n.workspace_id = $1`,
			`select t.id from notes n left join tags t on t.workspace_id = n.workspace_id and t.note = n.id where n.workspace_id = $1`,
			`select t.* from unnest($2::int[]) k (id) cross join lateral (
				select * from tags t where t.workspace_id = $1 and t.id = k.id offset 0) t`,
			`select from people where id = $1`,
			`insert into notes (id, workspace_id) values ($2, $1)`,
			`insert into notes (workspace_id, id) values ($1, $2), ($3, $4)
				on conflict (workspace_id, id) do update set state = excluded.state`,
			`insert into notes (workspace_id, id) select $1, * from unnest($2::int[])`,
			`update notes set state = 'closed' where workspace_id = $1`,
			`delete from notes n using tags t where n.workspace_id = $1 and t.workspace_id = $1 and t.note = n.id`,
			`with gone as (delete from tags where workspace_id = $1 returning id) select from gone`,
		},
		"notes": {
			`select from notes`,
			`select from notes where id = $1`,
			`select from notes where workspace_id = any($1)`,
			`select from notes where workspace_id > $1`,
			`select from notes where workspace_id::text = $1`,
			`select from notes where workspace_id = $1 or id = $2`,
			`select from notes where (workspace_id, id) > ($1, $2)`,
			`select from notes where not workspace_id = $1`,
			`select from notes where workspace_id = (select $1::uuid)`,
			`select from notes where workspace_id in (select workspace_id from people)`,
			`select n.id from unnest($1::uuid[]) k (w) cross join lateral (select * from notes n where n.workspace_id = k.w offset 0) n`,
			`update notes set state = 'closed' where id = $1`,
			`update notes n set state = 'closed' from unnest($1::uuid[]) k (w) where n.workspace_id = k.w`,
		},
		"tags": {
			`select from notes where workspace_id = $1 union all select from tags`,
			`select t.id from notes n join tags t on t.note = n.id where n.workspace_id = $1`,
			`delete from tags`,
			`with gone as (delete from tags where id = $1 returning id) select from gone`,
		},
		"notes, tags": {
			`select t.id from notes n join tags t using (workspace_id)`,
			`select t.id from notes n left join tags t on t.workspace_id = n.workspace_id and t.note = n.id and n.workspace_id = $1`,
		},
		"insert into notes": {
			`insert into notes (workspace_id, id) select * from unnest($1::uuid[], $2::int[])`,
			`insert into notes (workspace_id, id) select workspace_id, id from tags where workspace_id = $1`,
			`insert into notes (workspace_id, id) values (gen_random_uuid(), $1)`,
		},
	} {
		for _, sql := range statements {
			plan, err := s.explain(t, sql)
			require.NoError(t, err, sql)
			require.Equal(t, want, strings.Join(s.unnamed(plan), ", "), "%s\n%s", sql, plan.text(1))
		}
	}
}

func TestConditionsThatHideAPartialIndex(t *testing.T) {
	s := small(t)
	for sql, want := range map[string][]string{
		`select from notes where workspace_id = $1 and state = 'open' and due < $2`:      nil,
		`select from notes where workspace_id = $1 and id = $2`:                          nil,
		`select from tags where workspace_id = $1 and note = $2`:                         nil,
		`select from notes where workspace_id = $1 and state = $2 and due < $3`:          {"state = $102"},
		`select from notes where workspace_id = $1 and $2 <> state`:                      {"$102 <> notes.state"},
		`select from notes where workspace_id = $1 and state in ($2, $3)`:                {"state = ANY (ARRAY[$102"},
		`select from notes where workspace_id = $1 and (id = $2 or state <> all($3))`:    {"state <> ALL ($103"},
		`update notes set state = $3 where workspace_id = $1 and id = $2 and state = $4`: {"state = $104"},
	} {
		plan, err := s.explain(t, sql)
		require.NoError(t, err, sql)
		require.Equal(t, want, s.hidden(plan), sql)
	}
}

func TestProblemsOfStatements(t *testing.T) {
	piece := func(at, sql string) written { return written{at + ".go:1", at + ".go", sql, parts(sql)} }
	source := []written{
		piece("named", `select from notes where workspace_id = $1`), piece("all", `select id from notes`),
		piece("asked", `select id from tags where %s`), piece("part", `with n as (`), piece("sweep", `delete from tags`),
		piece("hiding", `select due from notes where workspace_id = $1 and state = $2`),
	}
	carriedOut := map[string]string{
		"select id from tags where note = $1": "\n select id from tags -- of any workspace\n where note = $1",
		"select from people":                  "select from people",
	}
	problems := small(t).problems(t, carriedOut, source, []exception{{file: "sweep"}, {part: "from people"}})
	require.Len(t, problems, 5)
	for i, want := range []string{
		"asked.go:1: no workspace_id = $n for tags:", "all.go:1: no workspace_id = $n for notes:", "part.go:1: not carried out here",
		"hiding.go:1: state = $102 hides a partial index", "an exception of nothing: {part:from people ",
	} {
		require.Contains(t, problems[i], want)
	}
	exceptions := []exception{{file: "sweep"}, {file: "part"}, {part: "from tags where note"}, {part: "id from notes"}}
	require.Len(t, small(t).problems(t, carriedOut, source, exceptions), 1, "that of hiding")
}
