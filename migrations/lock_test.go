package migrations_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"svc/migrations"
	"svc/test/pgtest"
)

// blocking returns a set up to a version. Its second migration waits while somebody has
// locked the table of the first.
func blocking(upTo string) migrations.Set {
	if upTo == "0001" {
		return files("0001_busy.sql", "create table busy (id int);")
	}
	return files("0001_busy.sql", "create table busy (id int);", "0002_wait.sql", "alter table busy add name text;")
}

func TestManyRunsAtOnce(t *testing.T) {
	const runs = 8
	url := pgtest.Empty(t)
	set := files(
		"0001_a.sql", "create table a (id int);",
		"0002_b.sql", "insert into a values (1);",
		"0003_i.sql", "-- no transaction\ncreate unique index concurrently i on a (id);",
		"0004_c.sql", "insert into a values (2);",
	)
	var reports [runs]bytes.Buffer
	var group errgroup.Group
	for i := range runs {
		conn := connect(t, url)
		group.Go(func() error { return set.Migrate(testContext(t), conn, &reports[i]) })
	}
	require.NoError(t, group.Wait())

	applied, idle := 0, 0
	for i := range reports {
		applied += strings.Count(reports[i].String(), "Successfully applied 4 migrations")
		idle += strings.Count(reports[i].String(), "No migration necessary.")
	}
	require.Equal(t, 1, applied)
	require.Equal(t, runs-1, idle)
	conn := connect(t, url)
	require.Equal(t, []string{"1 a true", "2 b true", "3 i true", "4 c true"}, history(t, conn))
	var rows int
	require.NoError(t, conn.QueryRow(testContext(t), "select count(*) from a").Scan(&rows))
	require.Equal(t, 2, rows)
}

// While a migration cannot have a table, because pg_dump has it, everybody else can.
func TestWaitingMigrationLetsOthersPass(t *testing.T) {
	url := pgtest.Empty(t)
	conn, dump, other := connect(t, url), connect(t, url), connect(t, url)
	mustMigrate(t, conn, blocking("0001"))
	exec(t, dump, "set application_name = 'pg_dump'; begin; lock table busy in access share mode")

	out := watch(fmt.Sprintf("Migration 0002_wait.sql was rolled back and is tried again: it waits for a lock, "+
		"perhaps of pg_dump (backend pid %d) ...\n", dump.PgConn().PID()))
	done := make(chan error)
	go func() { done <- blocking("0002").Migrate(testContext(t), conn, out) }()
	for tried := false; !tried; { // a commit waits two seconds for a lock
		exec(t, other, "begin; set local lock_timeout = '2s'; lock table busy in row exclusive mode; commit")
		select {
		case <-out.seen:
			tried = true
		default:
		}
	}
	exec(t, dump, "commit")
	require.NoError(t, <-done)
	require.Equal(t, 1, strings.Count(out.text.String(), "tried again"))
	require.Equal(t, []string{"1 busy true", "2 wait true"}, history(t, other))

	var limit string
	require.NoError(t, conn.QueryRow(testContext(t), "show lock_timeout").Scan(&limit))
	require.Equal(t, "0", limit)
}

// While the concurrent creation of an index waits for the transactions that began before it, it makes nobody
// else wait.
func TestWaitingForConcurrentIndexLetsOthersPass(t *testing.T) {
	url := pgtest.Empty(t)
	conn, dump, other := connect(t, url), connect(t, url), connect(t, url)
	mustMigrate(t, conn, blocking("0001"))
	for _, begin := range []string{
		"begin isolation level repeatable read; select from busy", "begin; insert into busy values (1)",
		"begin; lock table busy in share update exclusive mode", // as vacuum does
	} {
		exec(t, dump, begin)
		done := make(chan error, 1)
		go func() {
			_, err := migrate(t, conn, files("0001_busy.sql", "create table busy (id int);",
				"0002_i.sql", "-- no transaction\ncreate index concurrently i on busy (id);"))
			done <- err
		}()
		require.Eventually(t, func() bool {
			var waits bool
			require.NoError(t, other.QueryRow(testContext(t), `
				select exists (select from pg_locks where pid = $1 and not granted)`, conn.PgConn().PID()).Scan(&waits))
			return waits || len(done) > 0
		}, limit, time.Millisecond)
		require.Empty(t, done)
		exec(t, other, "set lock_timeout = '10s'; select from busy; insert into busy values (2); update busy set id = 3 where id = 2")
		exec(t, dump, "rollback")
		require.NoError(t, <-done)
		exec(t, other, "drop index i; delete from schema_history where version = 2")
	}
}

func TestWaitForAnotherRunHasALimit(t *testing.T) {
	url := pgtest.Empty(t)
	first, second, other := connect(t, url), connect(t, url), connect(t, url)
	mustMigrate(t, first, blocking("0001"))
	exec(t, other, "begin; lock table busy")

	out := watch(`to version "2 - wait"`)
	done := make(chan error)
	go func() { done <- blocking("0002").Migrate(testContext(t), first, out) }()
	out.wait(t)

	impatient := blocking("0002")
	impatient.LockWait = 10 * time.Millisecond
	report, err := migrate(t, second, impatient)
	require.ErrorContains(t, err, "another run of svc-db holds the migration lock of this database (backend pid ")
	require.ErrorContains(t, err, "did not end within 10ms; nothing was changed")
	require.Equal(t, "Database: postgresql://host:port/name (PostgreSQL version)\n"+
		"Waiting for another run of svc-db to end ...\n", report)

	ctx, cancel := context.WithCancel(testContext(t))
	waiting := watch("Waiting for another run")
	interrupted := make(chan error)
	go func() { interrupted <- blocking("0002").Migrate(ctx, second, waiting) }()
	waiting.wait(t)
	cancel()
	require.ErrorIs(t, <-interrupted, context.Canceled)

	exec(t, other, "rollback")
	require.NoError(t, <-done)
	require.Equal(t, []string{"1 busy true", "2 wait true"}, history(t, other))
	// The lock is released, not only left until the session ends.
	require.Contains(t, mustMigrate(t, other, blocking("0002")), "No migration necessary.")
}

// PostgreSQL cancels an autovacuum that blocks a statement only after deadlock_timeout.
func TestLockTimeoutIsAboveDeadlockTimeout(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	exec(t, conn, "set deadlock_timeout = '5s'")
	mustMigrate(t, conn, files("0001_limit.sql", "create table seen as select current_setting('lock_timeout') as value;"))
	var value string
	require.NoError(t, conn.QueryRow(testContext(t), "select value from seen").Scan(&value))
	require.Equal(t, "5200ms", value)
}
