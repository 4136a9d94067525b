// Package pgtest provides each test with its own PostgreSQL database, migrated and empty. Each test
// binary has a private cluster, which starts at the first use and is deleted at the end. A package that
// uses it needs
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// If TEST_DATABASE_URL is set, its server is used instead. Its user needs the right to create databases.
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

// stepTimeout is the time limit of each operation. Installing PostgreSQL is the slowest.
const stepTimeout = 10 * time.Minute

// shared is the cluster of this test binary.
var shared struct {
	sync.Mutex
	running bool // Main runs the tests
	source  *source
	err     error // of creating source, which is not tried again
}

// Main runs the tests of a package, deletes their databases, and exits.
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
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return shared.source.close(ctx)
}

// New returns a pool of connections to a migrated, empty database that no other test uses. It is
// closed when t ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
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

// closePool closes a pool. Unlike Close, it returns an error if connections have not been released for
// a minute.
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
		return errors.New("pgtest: the test has not released all connections of its pool")
	}
}

// URL returns the address of a database like New's, for tests that start processes. These must have
// ended when t ends.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	source := sharedSource(ctx, t)
	name, err := source.acquire(ctx)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		if err := source.release(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return source.url(name)
}

// Empty returns the address of a new database without tables.
func Empty(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	source := sharedSource(ctx, t)
	name, err := source.empty(ctx)
	require.NoError(t, err)
	return source.url(name)
}

// Encoded returns the address of a new database whose encoding is not that of the others.
func Encoded(t testing.TB, encoding string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	source := sharedSource(ctx, t)
	name, err := source.encoded(ctx, encoding)
	require.NoError(t, err)
	return source.url(name)
}

// Clone returns a pool of connections to a copy of another pool's database, so that several tests can
// change the same initial data. The other pool must be closed, and there must be no other connections
// to its database. The copy is dropped when t ends.
func Clone(t testing.TB, of *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	source := sharedSource(ctx, t)
	name, err := source.clone(ctx, of.Config().ConnConfig.Database)
	require.NoError(t, err)
	pool, err := pgxpool.New(ctx, source.url(name))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		if err := errors.Join(closePool(pool), source.remove(ctx, name)); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// Durable starts a cluster with durable settings, for tests that kill it. After Kill, pgserver.Start
// with its Dir restarts it. It is stopped when t ends.
func Durable(t testing.TB) *pgserver.Server {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		// The ordinary user that runs PostgreSQL for root needs access.
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
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

// sharedSource returns the binary's source of databases. The first call creates it.
func sharedSource(ctx context.Context, t testing.TB) *source {
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
