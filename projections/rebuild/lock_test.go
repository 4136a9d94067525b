package rebuild_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/projections"
	"svc/test/world"
)

func TestRebuildsOfOneViewExcludeEachOther(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	_, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	members, asked := world.View(t, "members"), 0
	want := world.Dump(t, w.DB, "members")
	err = world.Err(world.RebuildView(t.Context(), w.DB, members, func(int64, int64) {
		asked++
		err := world.Err(world.RebuildView(t.Context(), w.DB, members, world.IgnoreProgress))
		require.ErrorContains(t, err, "another rebuild of this view is under way")
		err = world.Err(world.RebuildView(t.Context(), world.Connect(t, w.URL), world.View(t, "users"), world.IgnoreProgress))
		require.NoError(t, err, "of another view")
	}))
	require.NoError(t, err)
	require.Positive(t, asked)
	require.Equal(t, want, world.Dump(t, w.DB, "members"))
	world.Rebuild(t, w.DB, members)
}

func TestRebuildReportsProgressToTheEnd(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 5)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 50))
	var head, last, steps int64
	require.NoError(t, w.DB.QueryRow(t.Context(), `select sum(head)::bigint from logs`).Scan(&head))
	require.NoError(t, world.Err(world.RebuildView(t.Context(), w.DB, world.View(t, "audit"), func(done, total int64) {
		require.Greater(t, done, last)
		require.Equal(t, head, total)
		last = done
		steps++
	})))
	require.Equal(t, head, last)
	require.Positive(t, steps)
}

// A rebuild that is cancelled at any moment leaves nothing behind and the view unchanged.
func TestCancelledRebuildLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 6)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 50))
	w.CaughtUp(t)
	want := world.Dumps(t, w.DB)
	for _, v := range projections.All() {
		wantShape := describeTable(t, w.DB, v.Name())
		untouched := func(err error) {
			t.Helper()
			require.Error(t, err)
			requireNothingLeft(t, w.DB)
			require.Equal(t, want[v.Name()], world.Dump(t, w.DB, v.Name()))
			require.Equal(t, wantShape, describeTable(t, w.DB, v.Name()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		untouched(world.Err(world.RebuildView(ctx, w.DB, v, func(int64, int64) { cancel() }))) // while it folds

		ctx, cancel = context.WithCancel(t.Context())
		holder, err := w.DB.Begin(t.Context())
		require.NoError(t, err)
		defer holder.Rollback(context.Background())
		_, err = holder.Exec(t.Context(), `select from `+v.Name()+` limit 1`) // keeps the table from being replaced
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- world.Err(world.RebuildView(ctx, w.DB, v, world.IgnoreProgress)) }()
		require.Eventually(t, func() bool { return waitsFor(t, w, v.Name()) }, world.Limit, 2*time.Millisecond)
		cancel() // while it waits for the table
		select {
		case err = <-done:
		case <-time.After(world.Limit):
			require.FailNow(t, "it did not end")
		}
		require.NoError(t, holder.Rollback(t.Context()))
		untouched(err)
	}
	for _, after := range []time.Duration{0, 200, 500, 1000, 2000, 4000, 8000, 16000} { // at whatever moment that is
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Microsecond)
		_ = world.Err(world.RebuildView(ctx, w.DB, world.View(t, "members"), world.IgnoreProgress)) // it may have been done by then
		cancel()
		requireNothingLeft(t, w.DB)
		require.Equal(t, want["members"], world.Dump(t, w.DB, "members"))
	}
	for _, v := range projections.All() {
		world.Rebuild(t, w.DB, v) // the lock is free
		require.Equal(t, want[v.Name()], world.Dump(t, w.DB, v.Name()))
	}
}

// waitsFor reports whether a connection waits for an exclusive lock on a table.
func waitsFor(t *testing.T, w *world.World, table string) (waits bool) {
	t.Helper()
	err := w.DB.QueryRow(t.Context(), `
		select exists (select from pg_locks where not granted and relation = $1::regclass and mode = 'AccessExclusiveLock'
			and database = (select oid from pg_database where datname = current_database()))`, table).Scan(&waits)
	require.NoError(t, err)
	return waits
}

// A rebuild retries the swap while a transaction reads for longer than the lock timeout.
func TestRebuildRetriesDuringLongRead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	_, err := w.NewPlayer(t.Context(), 7)
	require.NoError(t, err)
	want := world.Dump(t, w.DB, "members")
	reader, err := w.DB.Begin(t.Context())
	require.NoError(t, err)
	defer reader.Rollback(context.Background())
	_, err = reader.Exec(t.Context(), `select from members`)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		done <- world.Err(world.RebuildView(t.Context(), w.DB, world.View(t, "members"), world.IgnoreProgress))
	}()
	require.Eventually(t, func() bool { return waitsFor(t, w, "members") }, world.Limit, 2*time.Millisecond)
	require.Eventually(t, func() bool { return !waitsFor(t, w, "members") }, world.Limit, time.Millisecond) // it gave way
	require.NoError(t, reader.Rollback(t.Context()))
	select {
	case err = <-done:
	case <-time.After(world.Limit):
		require.FailNow(t, "it did not end")
	}
	require.NoError(t, err)
	require.Equal(t, want, world.Dump(t, w.DB, "members"))
}
