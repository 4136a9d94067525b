package migrations_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/migrations"
	"svc/test/pgtest"
)

var two = files(
	"0001_log.sql", "create table log (id int);",
	"0002_add_views.sql", "create table a (id int);\ncreate view b as select id from a;",
)

func TestFirstRun(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Successfully validated 2 migrations (execution time 00:00.000s)
Creating Schema History table "public"."schema_history" ...
Current version of schema "public": << Empty Schema >>
Migrating schema "public" to version "1 - log"
Migrating schema "public" to version "2 - add views"
Successfully applied 2 migrations to schema "public", now at version v2 (execution time 00:00.000s)
`, mustMigrate(t, conn, two))
	require.Equal(t, []string{"1 log true", "2 add views true"}, history(t, conn))
}

func TestSecondRunDoesNothing(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, two)
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Successfully validated 2 migrations (execution time 00:00.000s)
Current version of schema "public": 2
Schema "public" is up to date. No migration necessary.
`, mustMigrate(t, conn, two))
}

func TestOnlyWhatIsMissingIsApplied(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files("0001_log.sql", "create table log (id int);"))
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Successfully validated 2 migrations (execution time 00:00.000s)
Current version of schema "public": 1
Migrating schema "public" to version "2 - add views"
Successfully applied 1 migration to schema "public", now at version v2 (execution time 00:00.000s)
`, mustMigrate(t, conn, two))
}

func TestEmbeddedMigrationsApply(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	var first, second, table bytes.Buffer
	require.NoError(t, migrations.Migrate(testContext(t), conn, &first))
	require.NoError(t, migrations.Migrate(testContext(t), conn, &second))
	require.NoError(t, migrations.Info(testContext(t), conn, &table))
	require.Contains(t, first.String(), "Successfully applied")
	require.Contains(t, second.String(), "No migration necessary.")
	require.Contains(t, table.String(), "Success")
	require.NotContains(t, table.String(), "Pending")
}

func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, two)
	require.Equal(t, `Database: postgresql://host:port/name (PostgreSQL version)
Successfully validated 2 migrations (execution time 00:00.000s)
Current version of schema "public": 2
WARNING: Schema "public" has a version (2) that is newer than the latest available migration (1) ! `+
		`Nothing is applied. Run the svc-db image that matches the deployment.
Schema "public" is up to date. No migration necessary.
`, mustMigrate(t, conn, files("0001_log.sql", "create table log (id int);")))
	require.Equal(t, []string{"1 log true", "2 add views true"}, history(t, conn))
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	exec(t, conn, "create table theirs (id int)")
	_, err := migrate(t, conn, two)
	require.ErrorContains(t, err, `Found non-empty schema "public" but no schema history table "public"."schema_history"`)
	var log *string
	require.NoError(t, conn.QueryRow(testContext(t), "select to_regclass('log')::text").Scan(&log))
	require.Nil(t, log)
}

// A dump, for example, starts by emptying the search path.
func TestSearchPathDoesNotReachTheNextMigration(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	mustMigrate(t, conn, files(
		"0001_path.sql", "select set_config('search_path', '', false);",
		"0002_table.sql", "create table here (id int);",
	))
	var schema string
	require.NoError(t, conn.QueryRow(testContext(t),
		"select schemaname from pg_tables where tablename = 'here'").Scan(&schema))
	require.Equal(t, "public", schema)
}

func TestAnotherSchema(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	exec(t, conn, `create schema "Other"; set search_path to "Other"`)
	require.Contains(t, mustMigrate(t, conn, two), `Successfully applied 2 migrations to schema "Other", now at version v2`)
	require.Contains(t, mustMigrate(t, conn, two), `Schema "Other" is up to date.`)

	exec(t, conn, "set search_path to nowhere")
	_, err := migrate(t, conn, two)
	require.ErrorContains(t, err, "nowhere")
}

func TestFileNames(t *testing.T) {
	for name, test := range map[string]struct {
		set  migrations.Set
		want string
	}{
		"no version":     {files("log.sql", ""), "migration log.sql: the name must be NNNN_description.sql"},
		"Flyway's":       {files("V1__log.sql", ""), "migration V1__log.sql: the name must be"},
		"no description": {files("0001_.sql", ""), "migration 0001_.sql: the name must be"},
		"zero":           {files("0000_log.sql", ""), "versions start at 0001"},
		"twice":          {files("0001_a.sql", "", "0001_b.sql", ""), "Found more than one migration with version 1: 0001_a.sql and 0001_b.sql"},
		"not UTF-8":      {files("0001_a.sql", "select '\xff';"), "migration 0001_a.sql: not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := migrate(t, connect(t, pgtest.Empty(t)), test.set)
			require.ErrorContains(t, err, test.want)
		})
	}
}
