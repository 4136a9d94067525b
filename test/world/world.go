// Package world is a database with one process at work, and players who do random
// things in it, for tests of what is folded from events.
package world

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/pgtest"
)

// Epoch is when the clock of a world begins.
var Epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Limit bounds whatever a test waits for.
const Limit = time.Minute

// NewID returns an id made at Epoch.
func NewID() events.ID { return events.NewID(Epoch) }

// Ptr returns a pointer to v.
func Ptr[T any](v T) *T { return &v }

// A Clock is what the handlers of a test take for the time. It moves on with
// every look at it, by a step that is no whole number of milliseconds.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that begins at Epoch.
func NewClock() *Clock { return &Clock{at: Epoch} }

// Now returns the next time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(1_234_567 * time.Nanosecond)
	return c.at
}

// A World is a database with one process at work: a store with the inline
// views, a handler, a follower.
type World struct {
	URL      string
	DB       *pgxpool.Pool
	Clock    *Clock
	Log      *store.Store
	Commands *commands.Handler
	Follower *fold.Follower
}

// New returns a world of its own.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{URL: pgtest.URL(t), Clock: NewClock()}
	w.DB = Connect(t, w.URL)
	w.Follower = Follow(t, w.DB)
	w.Log = store.New(w.DB, projections.Inline(), w.Follower.Moved)
	t.Cleanup(w.Log.Close)
	w.Commands = commands.New(w.Log, w.Clock.Now)
	return w
}

// NewSilent is one in which nobody follows yet, and nobody is told.
func NewSilent(t *testing.T) *World {
	t.Helper()
	w := &World{URL: pgtest.URL(t), Clock: NewClock()}
	w.DB = Connect(t, w.URL)
	w.Log = store.New(w.DB, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(w.Log.Close)
	w.Commands = commands.New(w.Log, w.Clock.Now)
	return w
}

// Connect returns a pool of its own on the database at url.
func Connect(t *testing.T, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 10
	for _, f := range change {
		f(config)
	}
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// Follow runs a follower until t ends.
func Follow(t *testing.T, db *pgxpool.Pool) *fold.Follower {
	t.Helper()
	f := fold.NewFollower(db, projections.Followed(), func(string) bool { return true }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return f
}

// CaughtUp waits until every followed view has taken in every log.
func (w *World) CaughtUp(t *testing.T) {
	t.Helper()
	rows, _ := w.DB.Query(t.Context(), `select workspace_id, head from logs`)
	type log struct {
		Workspace events.ID
		Head      int64
	}
	logs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[log])
	require.NoError(t, err)
	for _, l := range logs {
		for _, v := range projections.Followed() {
			Await(t, w.Follower, v.Name(), l.Workspace, l.Head)
		}
	}
}

// Await is as patient as a test is.
func Await(t *testing.T, f *fold.Follower, view string, workspace events.ID, seq int64) {
	t.Helper()
	for begun := time.Now(); ; {
		err := f.Await(t.Context(), view, workspace, seq)
		if errors.Is(err, fold.ErrNotCaughtUp) && time.Since(begun) < Limit {
			continue
		}
		require.NoError(t, err, view)
		return
	}
}

// Dump returns the rows of a view as PostgreSQL writes them.
func Dump(t *testing.T, db *pgxpool.Pool, view string) []string {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select t::text from `+view+` t order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// Dumps returns the rows of every view.
func Dumps(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, v := range projections.All() {
		all[v.Name()] = Dump(t, db, v.Name())
	}
	return all
}

// Quiet hears of progress.
func Quiet(int64, int64) {}

// Rebuild rebuilds a view and requires that it worked.
func Rebuild(t *testing.T, db *pgxpool.Pool, v fold.View) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	require.NoError(t, Only(fold.Rebuild(ctx, db, v, Quiet)))
}

// View returns the view of that name.
func View(t testing.TB, name string) fold.View {
	t.Helper()
	for _, v := range projections.All() {
		if v.Name() == name {
			return v
		}
	}
	require.FailNow(t, "no such view", name)
	return nil
}

// Meta is that of somebody who may do anything.
func Meta(workspace events.ID, by events.Actor) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}}
}

// System is the service itself.
var System = events.Actor{Type: events.BySystem, Name: "system"}

// Only returns the error of a rebuild.
func Only(_ fold.RebuildResult, err error) error { return err }
