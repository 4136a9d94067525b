package store_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
)

// receivedHints runs hints and returns a channel with the hints that they receive.
func receivedHints(t *testing.T, db *pgxpool.Pool) (*store.Hints, chan events.ID) {
	t.Helper()
	heard := make(chan events.ID, 10_000)
	h := store.NewHints(db, db.Config().ConnConfig, slog.New(slog.DiscardHandler), func(id events.ID) { heard <- id })
	run(t, h)
	require.Zero(t, next(t, heard), "at first anything may have moved")
	return h, heard
}

func run(t *testing.T, h *store.Hints) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { stop(); done.Wait() })
}

func next(t *testing.T, heard chan events.ID) events.ID {
	t.Helper()
	select {
	case id := <-heard:
		return id
	case <-time.After(limit):
		require.FailNow(t, "nothing is heard")
		return events.ID{}
	}
}

func TestHintsReachAnotherProcess(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	one, _ := receivedHints(t, wide(t, url))
	_, heard := receivedHints(t, wide(t, url))
	a, b := newID(), newID()
	for range 100 { // which share one or two hints
		one.Moved(a, 1)
		one.Moved(b, 1)
	}
	got := map[events.ID]bool{}
	for len(got) < 2 {
		got[next(t, heard)] = true
	}
	require.Equal(t, map[events.ID]bool{a: true, b: true}, got)
	require.Less(t, len(heard), 50)
}

func TestManyLogsAreHintedAtTogether(t *testing.T) {
	t.Parallel()
	db := wide(t, pgtest.URL(t))
	other, heard := receivedHints(t, db)
	own := make(chan events.ID, 10_000)
	one := store.NewHints(db, db.Config().ConnConfig, slog.New(slog.DiscardHandler), func(id events.ID) { own <- id })
	for range 5000 { // before Run, so that they share a hint
		one.Moved(newID(), 1)
	}
	run(t, one)
	require.Zero(t, next(t, own), "at first anything may have moved")
	require.Zero(t, next(t, heard), "any, not 5,000")
	a, b := newID(), newID()
	one.Moved(a, 1)
	require.Equal(t, a, next(t, heard), "it was said once")
	other.Moved(b, 1)
	require.Equal(t, b, next(t, own), "who says it knows")
}

// A hint without a log costs the receiver a look at every workspace. So a single log that
// grows is always named.
func TestSingleGrowingLogIsAlwaysNamed(t *testing.T) {
	t.Parallel()
	db := wide(t, pgtest.URL(t))
	one, _ := receivedHints(t, db)
	_, heard := receivedHints(t, db)
	a, last := newID(), newID()
	for range 300 { // wakes the sender even though the last hint has named the log already
		one.Moved(a, 1)
		<-time.After(100 * time.Microsecond)
	}
	one.Moved(last, 1)
	for id := a; id != last; {
		id = next(t, heard)
		require.False(t, id.IsZero())
	}
}

// After a lost connection, hints that may have been missed are replaced by one for any log.
func TestHintsResumeAfterLostConnection(t *testing.T) {
	t.Parallel()
	db := wide(t, pgtest.URL(t))
	one, _ := receivedHints(t, db)
	_, heard := receivedHints(t, db)
	_, err := db.Exec(t.Context(),
		`select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%' and datname = current_database()`)
	require.NoError(t, err)
	require.Zero(t, next(t, heard))
	a := newID()
	one.Moved(a, 1)
	require.Equal(t, a, next(t, heard))
}

func wide(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}
