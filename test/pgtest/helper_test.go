package pgtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func count(t *testing.T, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n))
	return n
}

func databaseName(t *testing.T, pool *pgxpool.Pool) (database string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "select current_database()").Scan(&database))
	return database
}

func tables(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	found, err := pool.Query(t.Context(), `
		select relname from pg_class where relnamespace = 'public'::regnamespace
		and relkind = 'r' and relname <> 'schema_history'`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// nonEmptyTables returns the names of the tables that contain rows.
func nonEmptyTables(t *testing.T, pool *pgxpool.Pool) (nonEmpty []string) {
	t.Helper()
	for _, table := range tables(t, pool) {
		if count(t, pool, pgx.Identifier{table}.Sanitize()) > 0 {
			nonEmpty = append(nonEmpty, table)
		}
	}
	return nonEmpty
}

// insertLog inserts a row into logs.
func insertLog(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), "insert into logs (workspace_id, head, last_at) values (gen_random_uuid(), 1, now())")
	require.NoError(t, err)
	require.NotEmpty(t, nonEmptyTables(t, pool))
}

// folders returns the folders of the clusters of a test binary.
func folders(t *testing.T, pid string) []string {
	t.Helper()
	var all []string
	for _, base := range []string{"/dev/shm", os.TempDir()} {
		found, err := filepath.Glob(filepath.Join(base, "svc-pgtest-"+pid+"-*"))
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}
