package projections_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/projections"
)

func TestTwoRebuildsOfAViewAreNotAtWorkTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.settle(t.Context(), 1)
	require.NoError(t, err)
	members, asked := view(t, "members"), 0
	want := dump(t, w.db, "members")
	err = only(projections.Rebuild(t.Context(), w.db, members, func(int64, int64) {
		asked++
		require.ErrorContains(t, only(projections.Rebuild(t.Context(), w.db, members, quiet)), "another rebuild of this view is under way")
		require.NoError(t, only(projections.Rebuild(t.Context(), connect(t, w.url), view(t, "users"), quiet)), "of another view")
	}))
	require.NoError(t, err)
	require.Positive(t, asked)
	require.Equal(t, want, dump(t, w.db, "members"))
	rebuild(t, w.db, members)
}

func TestProgressGoesUpToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 5)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 50))
	var head, last, steps int64
	require.NoError(t, w.db.QueryRow(t.Context(), `select sum(head)::bigint from logs`).Scan(&head))
	require.NoError(t, only(projections.Rebuild(t.Context(), w.db, view(t, "audit"), func(done, total int64) {
		require.Greater(t, done, last)
		require.Equal(t, head, total)
		last = done
		steps++
	})))
	require.Equal(t, head, last)
	require.Positive(t, steps)
}

// Wherever a rebuild is cancelled, it leaves nothing behind, and the view as it was.
func TestACancelledRebuildLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 6)
	require.NoError(t, err)
	require.NoError(t, p.play(t.Context(), 50))
	w.caughtUp(t)
	want := dumps(t, w.db)
	for _, v := range projections.All() {
		wantShape := shape(t, w.db, v.Name())
		untouched := func(err error) {
			t.Helper()
			require.Error(t, err)
			requireNothingLeft(t, w.db)
			require.Equal(t, want[v.Name()], dump(t, w.db, v.Name()))
			require.Equal(t, wantShape, shape(t, w.db, v.Name()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		untouched(only(projections.Rebuild(ctx, w.db, v, func(int64, int64) { cancel() }))) // while it folds

		ctx, cancel = context.WithCancel(t.Context())
		holder, err := w.db.Begin(t.Context())
		require.NoError(t, err)
		defer holder.Rollback(context.Background())
		_, err = holder.Exec(t.Context(), `select from `+v.Name()+` limit 1`) // keeps the table from being replaced
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- only(projections.Rebuild(ctx, w.db, v, quiet)) }()
		require.Eventually(t, func() bool { return w.waitsFor(t, v.Name()) }, limit, 2*time.Millisecond)
		cancel() // while it waits for the table
		select {
		case err = <-done:
		case <-time.After(limit):
			require.FailNow(t, "it did not end")
		}
		require.NoError(t, holder.Rollback(t.Context()))
		untouched(err)
	}
	for _, after := range []time.Duration{0, 200, 500, 1000, 2000, 4000, 8000, 16000} { // wherever that is
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Microsecond)
		_ = only(projections.Rebuild(ctx, w.db, view(t, "members"), quiet)) // it may have been done by then
		cancel()
		requireNothingLeft(t, w.db)
		require.Equal(t, want["members"], dump(t, w.db, "members"))
	}
	for _, v := range projections.All() {
		rebuild(t, w.db, v) // and the next one is not kept waiting
		require.Equal(t, want[v.Name()], dump(t, w.db, v.Name()))
	}
}

// waitsFor reports whether somebody waits for a lock on a table.
func (w *world) waitsFor(t *testing.T, table string) (waits bool) {
	t.Helper()
	err := w.db.QueryRow(t.Context(), `
		select exists (select from pg_locks where not granted and relation = $1::regclass and mode = 'AccessExclusiveLock')`, table).Scan(&waits)
	require.NoError(t, err)
	return waits
}

// Somebody reads for longer than a rebuild waits at a time: it tries again.
func TestARebuildOutlastsALongRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.settle(t.Context(), 7)
	require.NoError(t, err)
	want := dump(t, w.db, "members")
	reader, err := w.db.Begin(t.Context())
	require.NoError(t, err)
	defer reader.Rollback(context.Background())
	_, err = reader.Exec(t.Context(), `select from members`)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- only(projections.Rebuild(t.Context(), w.db, view(t, "members"), quiet)) }()
	require.Eventually(t, func() bool { return w.waitsFor(t, "members") }, limit, 2*time.Millisecond)
	require.Eventually(t, func() bool { return !w.waitsFor(t, "members") }, limit, time.Millisecond) // it gave way
	require.NoError(t, reader.Rollback(t.Context()))
	select {
	case err = <-done:
	case <-time.After(limit):
		require.FailNow(t, "it did not end")
	}
	require.NoError(t, err)
	require.Equal(t, want, dump(t, w.db, "members"))
}
