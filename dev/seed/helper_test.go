package seed_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/dev/seed"
	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/pgtest"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ringOf(t *testing.T, key string) vault.Ring {
	t.Helper()
	ring, err := vault.NewRing([]config.Secret{config.Secret(strings.Repeat(key, 32))})
	require.NoError(t, err)
	return ring
}

func open(t *testing.T, url string) *pgxpool.Pool {
	db, err := pgxpool.New(testContext(t), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// list reads rows of one or more columns.
func list[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, _ := db.Query(testContext(t), sql, args...)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v T, err error) {
		if len(row.FieldDescriptions()) == 1 {
			return pgx.RowTo[T](row)
		}
		return pgx.RowToStructByPos[T](row)
	})
	require.NoError(t, err)
	return found
}

// scalar reads one value.
func scalar[T any](t *testing.T, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	found := list[T](t, db, sql, args...)
	require.Len(t, found, 1)
	return found[0]
}

// dumpAll returns each row of each table as text.
func dumpAll(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	return content(t, db, list[string](t, db, `select tablename::text from pg_tables where schemaname = 'public'`)...)
}

func content(t *testing.T, db *pgxpool.Pool, tables ...string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range tables {
		all[table] = list[string](t, db, `select t::text from `+table+` t order by 1`)
	}
	return all
}

func views() (names []string) {
	for _, v := range projections.All() {
		names = append(names, v.Name())
	}
	return names
}

// catchUp runs the followed views until they have processed all logs.
func catchUp(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	f := fold.NewFollower(db, projections.Followed(), func(string) bool { return true }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	type log struct {
		Workspace events.ID
		Head      int64
	}
	for _, l := range list[log](t, db, `select workspace_id, head from logs`) {
		for _, view := range []string{"runs", "audit"} {
			require.Eventually(t, func() bool { return f.Await(ctx, view, l.Workspace, l.Head) == nil }, time.Minute, time.Millisecond)
		}
	}
	stop()
	<-done
}

func readDemo(t *testing.T, file string) (d seed.Demo) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "only its owner may read the tokens")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}
