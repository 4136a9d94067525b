package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/pgtest"
)

// TestProgram tests what only the real program can show: exit statuses, signals, and concurrent
// processes.
func TestProgram(t *testing.T) {
	path := build(t)

	t.Run("migrates once", func(t *testing.T) {
		d := newDatabase(t)
		r := finish(t, start(t, path, d.environ)).requireHidden(t, d.password)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, "Successfully applied ")
		require.Empty(t, r.stderr)

		r = finish(t, start(t, path, d.environ)).requireHidden(t, d.password)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, `Schema "public" is up to date. No migration necessary.`)
	})

	t.Run("many at once", func(t *testing.T) {
		d := newDatabase(t)
		var cmds []*exec.Cmd
		for range 8 {
			cmds = append(cmds, start(t, path, d.environ))
		}
		applied := 0
		for _, cmd := range cmds {
			r := finish(t, cmd)
			require.Zero(t, r.status, r.stderr)
			applied += strings.Count(r.stdout, "Successfully applied ")
		}
		require.Equal(t, 1, applied)
	})

	t.Run("checksum mismatch", func(t *testing.T) {
		d := newDatabase(t)
		require.Zero(t, finish(t, start(t, path, d.environ)).status)
		d.exec(t, "update schema_history set checksum = 42 where version = 1")
		r := finish(t, start(t, path, d.environ)).requireHidden(t, d.password)
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "ERROR: Validate failed: Migrations have failed validation\n"+
			"Migration checksum mismatch for migration version 1\n-> Applied to database : 42\n-> Resolved locally : ")
		require.Contains(t, r.stderr, "Never edit an applied migration and never repair the history")
	})

	t.Run("newer database", func(t *testing.T) {
		d := newDatabase(t)
		require.Zero(t, finish(t, start(t, path, d.environ)).status)
		d.exec(t, "insert into schema_history values (9999, 'later', 1, now(), 0, true)")
		r := finish(t, start(t, path, d.environ)).requireHidden(t, d.password)
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, `WARNING: Schema "public" has a version (9999) that is newer than the latest available migration (`)
		require.Contains(t, r.stdout, "No migration necessary.")
	})

	t.Run("rebuilds only what it knows", func(t *testing.T) {
		d := newDatabase(t)
		r := finish(t, start(t, path, d.environ, "rebuild", "members"))
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "Run svc-db migrate first.")

		require.Zero(t, finish(t, start(t, path, d.environ)).status)
		r = finish(t, start(t, path, d.environ, "rebuild", "members"))
		require.Zero(t, r.status, r.stderr)
		require.Contains(t, r.stdout, "members: rebuilt from 0 events")

		d.exec(t, "insert into schema_history values (9999, 'later', 1, now(), 0, true)")
		r = finish(t, start(t, path, d.environ, "rebuild"))
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "that is newer than the latest available migration (")
		require.NotContains(t, r.stdout, "rebuilt")

		d.exec(t, "delete from schema_history where version = 9999; update schema_history set checksum = 42 where version = 1")
		r = finish(t, start(t, path, d.environ, "rebuild"))
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "Migration checksum mismatch for migration version 1")
		require.NotContains(t, r.stdout, "rebuilt")
	})

	t.Run("not UTF-8", func(t *testing.T) {
		for _, args := range [][]string{nil, {"-connect-retries=3", "info"}, {"rebuild", "members"}, {"verify"}} {
			r := runHere(t, nil, append([]string{"-url=" + pgtest.Encoded(t, "LATIN1")}, args...)...)
			require.Equal(t, 1, r.status)
			require.Contains(t, r.stderr, "the database's encoding is LATIN1 and has to be UTF8: create one with")
			require.Empty(t, r.stdout)
		}
	})

	t.Run("no address", func(t *testing.T) {
		r := finish(t, start(t, path, nil))
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "Unable to connect to the database. Configure the url, user and password!")
	})

	t.Run("wrong command", func(t *testing.T) {
		require.Equal(t, 2, finish(t, start(t, path, nil, "clean")).status)
	})

	for name, sig := range map[string]syscall.Signal{"interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			require.Zero(t, finish(t, start(t, path, d.environ)).status)
			// A lock on the history keeps the next run waiting.
			d.exec(t, "begin; lock table schema_history")
			cmd := start(t, path, d.environ)
			require.Eventually(t, d.waiting(t), limit, 10*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(sig))
			r := finish(t, cmd)
			require.Equal(t, 1, r.status)
			require.Contains(t, r.stderr, "ERROR: interrupted: ")
			require.Contains(t, r.stderr, "57014", "the server did not confirm")
			require.False(t, d.waiting(t)(), "the statement goes on in the server")
		})
	}
}

// waiting reports whether another session waits for a lock of this one.
func (d *database) waiting(t *testing.T) func() bool {
	return func() bool {
		var n int
		require.NoError(t, d.conn.QueryRow(t.Context(), `
			select count(*) from pg_locks
			where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))`).Scan(&n))
		return n > 0
	}
}
