package migrations

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/fault"
)

// tableChange matches the statements that create or drop a table.
var tableChange = regexp.MustCompile(`(create|drop)\s+(?:unlogged\s+)?table\s+(?:if\s+(?:not\s+)?exists\s+)?(\w+)`)

// tablesOf returns the names of the tables that migrations leave, in order.
func tablesOf(files []file) []string {
	names := map[string]bool{tableName: true}
	for _, f := range files {
		for _, m := range tableChange.FindAllStringSubmatch(f.sql, -1) {
			if m[1] == "create" {
				names[m[2]] = true
			} else {
				delete(names, m[2])
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// maxAlterations is how many alterations of tables are listed.
const maxAlterations = 10

// alterations returns what makes the named tables answer, or store, something else than plain tables do. Migrations
// create none of that: no view, trigger or rule, no row security, no partitions and no table that inherits from
// another. Columns, constraints and indexes are not compared.
func (h *history) alterations(ctx context.Context, tables []string) (list []string, err error) {
	rows, _ := h.conn.Query(ctx, `
		with tables as (
			select k.name, c.oid as id, c.relkind as kind, c.relrowsecurity as secured
			from unnest($1::text[]) k (name) left join pg_class c on c.relname = k.name and c.relnamespace = $2::text::regnamespace)
		select name, 'is missing', '' from tables where id is null
		union all select name, 'is no table', '' from tables where kind <> 'r'
		union all select name, 'has row security', '' from tables where secured
		union all select name, 'has trigger', tgname from tables join pg_trigger on tgrelid = id where not tgisinternal
		union all select name, 'has rule', rulename from tables join pg_rewrite on ev_class = id where kind = 'r'
		union all select name, 'includes the rows of', c.relname
			from tables join pg_inherits on inhparent = id join pg_class c on c.oid = inhrelid where kind = 'r'
		order by 1, 2, 3 limit $3`, tables, pgx.Identifier{h.schema}.Sanitize(), maxAlterations)
	var name, what, which string
	_, err = pgx.ForEachRow(rows, []any{&name, &what, &which}, func() error {
		if which != "" {
			what = fmt.Sprintf("%s %q", what, which)
		}
		list = append(list, name+" "+what)
		return nil
	})
	return list, fault.Wrap(err, "compare tables of schema %q", h.schema)
}

// alteredText describes alterations and says what to do.
func alteredText(list []string) string {
	return "Tables are not as the migrations made them: " + strings.Join(list, "; ") + ". Find out who did that: the service reads " +
		"and writes through it. Undo it, or restore the backup, then run svc-db verify -views."
}
