package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// lookUps are the tables of what is unique across all workspaces, each with its
// distribution column. Every other table is distributed by workspace_id.
var lookUps = map[string]string{
	"accounts":            "account_key", // a view of which account signs in which person
	"bus_groups":          "topic",
	"bus_messages":        "topic",
	"bus_topics":          "topic",
	"comparison_progress": "one",
	"daily_counts":        "user_id",
	"global_keys":         "key",
	"leases":              "name",
	"oauth_states":        "state_hash",
	"passwords":           "user_id",
	"provider_tokens":     "user_id",
	"schema_history":      "version", // belongs to svc-db
	"service_tokens":      "fingerprint",
	"sessions":            "token_hash",
	"users":               "user_id",
	"vault_checks":        "name",
	"vault_secrets":       "name",
	"views":               "name",
}

// Sharding PostgreSQL by workspace requires that every key begins with the distribution
// column of its table, and that the schema has no sequences or triggers. The test checks
// the catalogue for that.
func TestEverythingLeadsWithItsDistributionColumn(t *testing.T) {
	conn := connect(t, pgtest.URL(t))
	require.Empty(t, undistributed(t, conn, lookUps))
	for table, column := range lookUps {
		require.NotEqual(t, "workspace_id", column, "%s belongs to workspaces: it is no look-up", table)
	}
}

func TestUndistributableTablesAreFound(t *testing.T) {
	const good = `create table good (workspace_id uuid, id uuid, primary key (workspace_id, id));`
	for name, c := range map[string]struct {
		sql     string
		lookUps map[string]string
		want    []string
	}{
		"all is well": {good, nil, nil},
		"a look-up": {
			`create table names (name text primary key, workspace_id uuid not null);`,
			map[string]string{"names": "name"}, nil,
		},
		"a look-up that nobody listed": {
			`create table names (name text primary key, workspace_id uuid not null);`, nil,
			[]string{"key names_pkey of names leads with name", "table names leads with name"},
		},
		"a look-up that is not there": {good, map[string]string{"gone": "name"}, []string{"look-up gone is no table"}},
		"a table without the column": {
			`create table bare (id uuid primary key);`, nil,
			[]string{"key bare_pkey of bare leads with id", "table bare leads with id"},
		},
		"a table without a key": {
			`create table loose (workspace_id uuid not null);`, nil, []string{"table loose has no primary key"},
		},
		"a unique constraint": {
			good + `alter table good add constraint once unique (id, workspace_id);`, nil,
			[]string{"key once of good leads with id"},
		},
		"a unique index": {
			good + `create unique index once on good (id) where id is not null;`, nil,
			[]string{"key once of good leads with id"},
		},
		"a unique index of an expression": {
			good + `create unique index once on good ((id::text), workspace_id);`, nil,
			[]string{"key once of good leads with an expression"},
		},
		"an index that is no key": {good + `create index seek on good (id);`, nil, nil},
		"a foreign key": {
			good + `create table child (workspace_id uuid, id uuid, good uuid, primary key (workspace_id, id),
				constraint parent foreign key (workspace_id, good) references good (workspace_id, id));`, nil, nil,
		},
		"a foreign key in another order": {
			good + `create table child (workspace_id uuid, id uuid, good uuid, primary key (workspace_id, id),
				constraint parent foreign key (good, workspace_id) references good (id, workspace_id));`, nil,
			[]string{"foreign key parent of child leads with good to id"},
		},
		"a foreign key to a look-up": {
			`create table names (name text primary key);
			create table child (workspace_id uuid, name text, primary key (workspace_id),
				constraint named foreign key (name) references names (name));`, map[string]string{"names": "name"},
			[]string{"foreign key named of child leads with name to name"},
		},
		"a trigger": {
			good + `create function f() returns trigger language plpgsql as 'begin return new; end';
			create trigger t before insert on good for each row execute function f();`, nil,
			[]string{"trigger t of good"},
		},
		"a rule": {good + `create rule r as on delete to good do instead nothing;`, nil, []string{"rule r of good"}},
		"a sequence": {
			good + `create sequence s;`, nil, []string{"sequence s"},
		},
		"a serial column": {
			good + `alter table good add column n bigserial;`, nil, []string{"sequence good_n_seq"},
		},
		"an identity column": {
			good + `alter table good add column n bigint generated always as identity;`, nil, []string{"sequence good_n_seq"},
		},
		"a partitioned table": {
			`create table parted (id uuid, workspace_id uuid, primary key (id, workspace_id)) partition by list (id);`, nil,
			[]string{"key parted_pkey of parted leads with id", "table parted leads with id"},
		},
		"a materialised view": {`create materialized view m as select 1;`, nil, []string{"m is neither a table nor an index"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, pgtest.Empty(t))
			exec(t, conn, c.sql)
			require.ElementsMatch(t, c.want, undistributed(t, conn, c.lookUps))
		})
	}
}

// undistributed returns what prevents the schema from being distributed, in order.
func undistributed(t *testing.T, conn *pgx.Conn, lookUps map[string]string) []string {
	t.Helper()
	var tables, columns []string
	for table, column := range lookUps {
		tables, columns = append(tables, table), append(columns, column)
	}
	rows, err := conn.Query(testContext(t), undistributedSQL, tables, columns)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// undistributedSQL takes the names of the look-up tables and their distribution columns.
const undistributedSQL = `
	with look_ups as (
		select * from unnest($1::text[], $2::text[]) as l (name, by)
	), relations as (
		select c.* from pg_class c where c.relnamespace = 'public'::regnamespace
	), tables as (
		select c.oid, c.relname as name, coalesce(l.by, 'workspace_id') as by
		from relations c left join look_ups l on l.name = c.relname where c.relkind in ('r', 'p')
	), keys as (
		select t.*, i.indexrelid, pg_get_indexdef(i.indexrelid, 1, true) as first, i.indisprimary, i.indkey[0] = 0 as expression
		from tables t join pg_index i on i.indrelid = t.oid where i.indisunique or i.indisexclusion
	), links as (
		select f.conname as name, t.name as of, t.by, a.attname as first, t2.by as by2, a2.attname as first2
		from pg_constraint f join tables t on t.oid = f.conrelid join tables t2 on t2.oid = f.confrelid
		join pg_attribute a on a.attrelid = t.oid and a.attnum = f.conkey[1]
		join pg_attribute a2 on a2.attrelid = t2.oid and a2.attnum = f.confkey[1]
		where f.contype = 'f'
	)
	select format('table %s leads with %s', t.name, a.attname) from tables t
		join pg_attribute a on a.attrelid = t.oid and a.attnum = (
			select min(attnum) from pg_attribute where attrelid = t.oid and attnum > 0 and not attisdropped)
		where a.attname <> t.by
	union all
	select format('table %s has no primary key', t.name) from tables t
		where not exists (select from keys k where k.oid = t.oid and k.indisprimary)
	union all
	select format('key %s of %s leads with %s', indexrelid::regclass, name, case when expression then 'an expression' else first end)
		from keys where first <> quote_ident(by)
	union all
	select format('foreign key %s of %s leads with %s to %s', name, of, first, first2)
		from links where first <> by or first2 <> by2
	union all
	select format('trigger %s of %s', g.tgname, t.name) from pg_trigger g join tables t on t.oid = g.tgrelid where not g.tgisinternal
	union all
	select format('rule %s of %s', r.rulename, t.name) from pg_rewrite r join tables t on t.oid = r.ev_class
	union all
	select format('sequence %s', relname) from relations where relkind = 'S'
	union all
	select format('%s is neither a table nor an index', relname) from relations where relkind not in ('r', 'p', 'i', 'I', 'S')
	union all
	select format('look-up %s is no table', l.name) from look_ups l where l.name not in (select name from tables)
	order by 1`
