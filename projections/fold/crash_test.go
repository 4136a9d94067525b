//go:build !race

package fold_test

import (
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/dev/pgserver"
	"svc/events"
	"svc/events/store"
	"svc/migrations"
	"svc/projections"
	"svc/test/pgtest"
	"svc/test/world"
)

// PostgreSQL is killed right after views were updated, and loses their commits, which do not wait for the disk. The
// process goes on, and nothing is appended. Its views catch up.
func TestViewsCatchUpAfterPostgresWasKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Durable(t)
	address, err := url.Parse(server.URL("postgres"))
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	require.NoError(t, err)
	require.NoError(t, migrations.Migrate(t.Context(), conn, io.Discard))
	for _, setting := range []string{`alter system set wal_writer_delay = '10s'`, `select pg_reload_conf()`} { // 200 ms is a race
		_, err = conn.Exec(t.Context(), setting)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(t.Context()))
	w := &world.World{URL: server.URL("postgres"), Clock: world.NewClock()}
	w.DB = world.Connect(t, w.URL)
	w.Log = store.New(w.DB, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(w.Log.Close)
	w.Commands = commands.New(w.Log, w.Clock.Now)
	w.Follower = world.Follow(t, w.DB)

	workspace := world.NewID()
	for lost, tries := false, 0; !lost; tries++ {
		require.Less(t, tries, 5, "the crash lost no commit")
		for range 5 { // until the positions of views are remembered
			awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
		}
		head := grow(t, w, workspace, 1)
		awaitViews(t, w, workspace, head, allFollowed()...)
		require.NoError(t, server.Kill())
		server, err = pgserver.Start(t.Context(), pgserver.Config{Dir: server.Dir(), Durable: true, Addr: address.Host})
		require.NoError(t, err)
		t.Cleanup(func() { _ = server.Stop() })
		lost = positionOf(t, w.URL, workspace) < head
		require.Eventually(t, func() bool { return positionOf(t, w.URL, workspace) == head }, world.Limit, 100*time.Millisecond)
	}
}

// positionOf returns the position of view runs, by a connection of its own.
func positionOf(t *testing.T, database string, workspace events.ID) (seq int64) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), `
		select coalesce((select seq from checkpoints where workspace_id = $1 and view = 'runs'), 0)`, workspace).Scan(&seq))
	return seq
}
