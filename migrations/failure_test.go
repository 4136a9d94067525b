package migrations_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

func TestFailedMigrationIsRolledBack(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	_, err := migrate(t, conn, files(
		"0001_a.sql", "create table a ();",
		"0002_b.sql", "create table b ();\n-- grün 🐘🐘🐘🐘🐘🐘\nselect 1;\n\n  select * from nowhere;\n",
		"0003_c.sql", "create table c ();",
	))
	require.EqualError(t, err, `Migration 0002_b.sql failed
---------------------------
SQL State  : 42P01
Message    : relation "nowhere" does not exist
Line       : 5
It was rolled back: the next run starts with it again.`)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, []string{"1 a true"}, history(t, conn))

	report := mustMigrate(t, conn, files("0001_a.sql", "create table a ();", "0002_b.sql", "create table b ();"))
	require.Contains(t, report, `Migrating schema "public" to version "2 - b"`)
	require.Equal(t, []string{"1 a true", "2 b true"}, history(t, conn))
}

func TestAFailedMigrationReportsItsCause(t *testing.T) {
	for name, test := range map[string]struct{ sql, want string }{
		"CRLF": {"select 1;\r\nselect 2;\r\ncreat table b ();",
			"SQL State  : 42601\nMessage    : syntax error at or near \"creat\"\nLine       : 3\n"},
		"run time": {"select 1;\nselect 1/0;", "SQL State  : 22012\nMessage    : division by zero\nIt was rolled back"},
		"at commit": {
			"create table p (id int primary key);\ncreate table c (id int references p deferrable initially deferred);\ninsert into c values (1);",
			"SQL State  : 23503\n",
		},
		"its own commit": {"create table b ();\ncommit;", "Message    : the file ends its own transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, pgtest.Empty(t))
			_, err := migrate(t, conn, files("0001_b.sql", test.sql))
			require.ErrorContains(t, err, "Migration 0001_b.sql failed\n")
			require.ErrorContains(t, err, test.want)
			require.Empty(t, history(t, conn))
		})
	}
}

var concurrently = files(
	"0001_a.sql", "create table a (id int);\ninsert into a values (1), (1);",
	"0002_i.sql", "-- no transaction\ncreate unique index concurrently i on a (id);",
)

func TestFailureOutsideATransactionBlocksTheNextRun(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	_, err := migrate(t, conn, concurrently)
	require.EqualError(t, err, `Migration 0002_i.sql failed
---------------------------
SQL State  : 23505
Message    : could not create unique index "i"
It ran outside a transaction: look at what it left before the next run.`)
	require.Equal(t, []string{"1 a true", "2 i false"}, history(t, conn))

	_, err = migrate(t, conn, concurrently)
	require.EqualError(t, err, `Validate failed: Migrations have failed validation
Detected failed migration to version 2 (i). Schema "public" contains a failed migration to version 2 !
It ran outside a transaction and may have left something half done, `+
		`such as an invalid index. Restore the backup; or remove what it left by hand, then run
  delete from "public"."schema_history" where version = 2 and not success;
and start again.`)

	// Do what the message says.
	exec(t, conn, `delete from a; drop index i; delete from "public"."schema_history" where version = 2 and not success`)
	require.Contains(t, mustMigrate(t, conn, concurrently), "Migrating schema \"public\" to version \"2 - i\" [non-transactional]\n")
	require.Equal(t, []string{"1 a true", "2 i true"}, history(t, conn))
}

func TestOneStatementOutsideATransaction(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	_, err := migrate(t, conn, files("0001_a.sql", "-- no transaction\r\ncreate table a ();\ncreate table b ();"))
	require.ErrorContains(t, err, "cannot insert multiple commands into a prepared statement")
	var tables int
	require.NoError(t, conn.QueryRow(testContext(t),
		"select count(*) from pg_tables where tablename in ('a', 'b')").Scan(&tables))
	require.Zero(t, tables)
}

func TestInterruptedMigrationIsRolledBack(t *testing.T) {
	url := pgtest.Empty(t)
	conn, other := connect(t, url), connect(t, url)
	mustMigrate(t, conn, blocking("0001"))
	exec(t, other, "begin; lock table busy")

	ctx, cancel := context.WithCancel(testContext(t))
	out := watch(`to version "2 - wait"`)
	done := make(chan error)
	go func() { done <- blocking("0002").Migrate(ctx, conn, out) }()
	out.wait(t)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	exec(t, other, "rollback")
	require.Equal(t, []string{"1 busy true"}, history(t, other))

	var report bytes.Buffer
	require.NoError(t, blocking("0002").Migrate(testContext(t), other, &report))
	require.Equal(t, []string{"1 busy true", "2 wait true"}, history(t, other))
}
