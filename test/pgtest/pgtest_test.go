package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestNewIsMigratedAndEmpty(t *testing.T) {
	pool := pgtest.New(t)
	require.Contains(t, tables(t, pool), "events")
	require.Empty(t, nonEmptyTables(t, pool))
	require.NotZero(t, count(t, pool, "schema_history"))
}

func TestDatabasesAreDistinct(t *testing.T) {
	require.NotEqual(t, databaseName(t, pgtest.New(t)), databaseName(t, pgtest.New(t)))
}

func TestReturnedDatabaseIsEmptiedAndUsedAgain(t *testing.T) {
	var first string
	t.Run("fills", func(t *testing.T) {
		pool := pgtest.New(t)
		first = databaseName(t, pool)
		insertLog(t, pool)
	})
	pool := pgtest.New(t)
	require.Equal(t, first, databaseName(t, pool))
	require.Empty(t, nonEmptyTables(t, pool))
	require.NotZero(t, count(t, pool, "schema_history"))
}

func TestAlteredDatabaseIsNotUsedAgain(t *testing.T) {
	var first string
	t.Run("alters", func(t *testing.T) {
		pool := pgtest.New(t)
		first = databaseName(t, pool)
		_, err := pool.Exec(t.Context(), "create table of_this_test ()")
		require.NoError(t, err)
	})
	pool := pgtest.New(t)
	require.NotEqual(t, first, databaseName(t, pool))
	require.NotContains(t, tables(t, pool), "of_this_test")
}

func TestOpenConnectionsAreEnded(t *testing.T) {
	var conn *pgx.Conn
	t.Run("leaves a lock", func(t *testing.T) {
		var err error
		conn, err = pgx.Connect(t.Context(), pgtest.URL(t))
		require.NoError(t, err)
		for _, statement := range []string{"begin", "lock table schema_history"} {
			_, err = conn.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
	})
	require.Error(t, conn.Ping(t.Context()))
	require.NotZero(t, count(t, pgtest.New(t), "schema_history"))
}

func TestEmptyHasNoTables(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.Empty(t))
	require.NoError(t, err)
	defer pool.Close()
	require.Empty(t, tables(t, pool))
	require.NotEqual(t, pgtest.Empty(t), pgtest.Empty(t))
}

func TestCloneIsIndependent(t *testing.T) {
	origin := pgtest.New(t)
	insertLog(t, origin)
	origin.Close()
	clone := pgtest.Clone(t, origin)
	require.Equal(t, 1, count(t, clone, "logs"))
	insertLog(t, clone)
	require.Equal(t, 2, count(t, clone, "logs"))
	require.Equal(t, 1, count(t, pgtest.Clone(t, origin), "logs"))
}

func TestParallelTests(t *testing.T) {
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			require.Empty(t, nonEmptyTables(t, pool))
			insertLog(t, pool)
		})
	}
}

func TestDurableSurvivesAKill(t *testing.T) {
	server := pgtest.Durable(t)
	write := func(statement string) {
		conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
		require.NoError(t, err)
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	write("create table kept ()")
	require.NoError(t, server.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	restarted, err := pgserver.Start(ctx, pgserver.Config{Dir: server.Dir(), Durable: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, restarted.Stop()) }()
	server = restarted
	write("drop table kept")
}
