package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/migrations"
	"svc/test/pgtest"
)

// Whoever may alter tables could put something else in their place that answers differently, or have rows changed on
// the way.
func TestAlteredTablesAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		want string // "" if it is not noticed
	}{
		"a view in place of a table": {`
			alter table members rename to genuine;
			create view members as select * from genuine`, `members is no table`},
		"a missing table":    {`drop table members`, `members is missing`},
		"another schema":     {`create schema other; alter table members set schema other`, `members is missing`},
		"a rule":             {`create rule r as on insert to members do instead nothing`, `members has rule "r"`},
		"row security":       {`alter table members enable row level security`, `members has row security`},
		"a child with rows":  {`create table more () inherits (members)`, `members includes the rows of "more"`},
		"partitions":         {`drop table commands; create table commands (n int) partition by list (n)`, `commands is no table`},
		"a disabled trigger": {trigger + `; alter table members disable trigger t`, `members has trigger "t"`},
		"a trigger":          {trigger, `members has trigger "t"`},
		"several":            {trigger + `; drop table sessions`, `members has trigger "t"; sessions is missing`},
		"a table of others":  {`create table theirs (); create view theirs_too as select from theirs`, ""},

		// Nothing detects this.
		"a function called by a check": {`
			create function f(text) returns boolean language sql as 'select true';
			alter table members add constraint c check (f(role))`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.New(t)
			conn, err := db.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			_, err = conn.Exec(t.Context(), `create table so_that_no_other_test_gets_this_database (); `+c.sql, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			err = migrations.Current(t.Context(), conn.Conn())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "Tables are not as the migrations made them: "+c.want+". ")
		})
	}
}

const trigger = `
	create function f() returns trigger language plpgsql as 'begin return null; end';
	create trigger t before update on members for each row execute function f()`

// All tables are compared, and a table that migrations have renamed or dropped is not expected.
func TestTablesOfMigrations(t *testing.T) {
	db := pgtest.New(t)
	rows, err := db.Query(t.Context(), `
		select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f')`)
	require.NoError(t, err)
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	names, err := migrations.TableNames()
	require.NoError(t, err)
	require.ElementsMatch(t, there, names)

	s := files("0001_a.sql", "create table a ();\ncreate table if not exists b ();",
		"0002_b.sql", "drop table a;\ncreate unlogged table c ();")
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, s)
	require.NoError(t, s.Current(t.Context(), conn))
}
