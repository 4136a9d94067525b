// Package pgtest gives each test a PostgreSQL database of its own, migrated
// and empty. One private cluster serves a test binary: it starts at the first
// use and is thrown away at the end. A package that uses it needs
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// TEST_DATABASE_URL, where set, names a server to use instead, as a user that
// may create databases.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
)

// limit is how long any one step on the server may take. Installing
// PostgreSQL at the very first use is the slowest.
const limit = 10 * time.Minute

// shared is the cluster of this test binary.
var shared struct {
	sync.Mutex
	running bool // Main is at work
	source  *source
	err     error // why there is no source; a second try would end alike
}

// Main runs the tests of a package, removes what they had here, and exits.
func Main(m *testing.M) {
	shared.Lock()
	shared.running = true
	shared.Unlock()
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	shared.running = false
	if shared.source == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return shared.source.close(ctx)
}

// New is a pool on a migrated, empty database that no other test uses. It is
// closed when t ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pool, err := pgxpool.New(ctx, URL(t))
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := closePool(pool); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// closePool closes with a limit: Close itself waits for ever for a connection
// that a test took and did not give back.
func closePool(pool *pgxpool.Pool) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-time.After(time.Minute):
		return errors.New("pgtest: the test has not given back all connections of its pool")
	}
}

// URL is the address of a database like New's, for tests that start processes.
// They must have ended when t ends.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	source := start(ctx, t)
	name, err := source.take(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := source.giveBack(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return source.url(name)
}

// Empty is the address of a database of t's own without any table.
func Empty(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	source := start(ctx, t)
	name, err := source.empty(ctx)
	require.NoError(t, err)
	return source.url(name)
}

// Clone is a pool on a copy of the database that another one is of, for tests that
// each change what was made once. That pool must be closed, and nobody else be
// connected. The copy is dropped when t ends.
func Clone(t testing.TB, of *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	source := start(ctx, t)
	name, err := source.clone(ctx, of.Config().ConnConfig.Database)
	require.NoError(t, err)
	pool, err := pgxpool.New(ctx, source.url(name))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := errors.Join(closePool(pool), source.remove(ctx, name)); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// Durable is a private cluster of t's own with durable settings, for tests
// that kill it: after Kill, pgserver.Start on its Dir brings it back. It is
// stopped when t ends.
func Durable(t testing.TB) *pgserver.Server {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		// The ordinary user that runs PostgreSQL for root must get in.
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres"), Durable: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// start is the binary's source of databases, made at the first use.
func start(ctx context.Context, t testing.TB) *source {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	require.True(t, shared.running, "pgtest needs: func TestMain(m *testing.M) { pgtest.Main(m) }")
	if shared.source == nil && shared.err == nil {
		shared.source, shared.err = open(ctx)
	}
	require.NoError(t, shared.err)
	return shared.source
}
