// Package world sets up a database with a store, a command handler and a follower, and
// players that issue random commands, for tests of views and of consumers of the log.
package world

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	"svc/projections/rebuild"
	"svc/test/pgtest"
)

// Epoch is the time at which the clock of a world starts.
var Epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Limit is the longest that a test waits for anything.
const Limit = time.Minute

// NewID returns an id with the timestamp Epoch.
func NewID() events.ID { return events.NewID(Epoch) }

// Ptr returns a pointer to v.
func Ptr[T any](v T) *T { return &v }

// A Clock is the clock of command handlers in tests. Each call of Now advances it by
// 1.234567 ms, which is not a whole number of milliseconds.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that starts at Epoch.
func NewClock() *Clock { return &Clock{at: Epoch} }

// Now advances the clock and returns its time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(1_234_567 * time.Nanosecond)
	return c.at
}

// A World is a database of its own with what a service runs on it: a store with the
// inline views, a command handler and a follower.
type World struct {
	URL      string
	DB       *pgxpool.Pool
	Clock    *Clock
	Log      *store.Store
	Commands *commands.Handler
	Follower *fold.Follower
}

// New returns a world on a new database, with a running follower.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{URL: pgtest.URL(t), Clock: NewClock()}
	w.DB = Connect(t, w.URL)
	w.Follower = Follow(t, w.DB)
	w.Log = store.New(w.DB, projections.Inline(), w.Follower.Moved)
	t.Cleanup(w.Log.Close)
	w.Commands = commands.New(w.Log, w.Clock.Now)
	w.Commands.Views = Views(w.DB, func() int64 { return w.Clock.Now().UnixMilli() })
	return w
}

// NewSilent returns a world without a follower. Appends notify nobody.
func NewSilent(t *testing.T) *World {
	t.Helper()
	w := &World{URL: pgtest.URL(t), Clock: NewClock()}
	w.DB = Connect(t, w.URL)
	w.Log = store.New(w.DB, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(w.Log.Close)
	w.Commands = commands.New(w.Log, w.Clock.Now)
	w.Commands.Views = Views(w.DB, func() int64 { return w.Clock.Now().UnixMilli() })
	return w
}

// Connect returns a new pool on the database at url. It is closed when t ends.
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

// CaughtUp waits until every followed view has reached the head of every log.
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

// Await waits until a view has reached an event, for at most Limit.
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

// Dump returns the rows of a view as text, in order.
func Dump(t *testing.T, db *pgxpool.Pool, view string) []string {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select t::text from `+view+` t order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// Dumps returns the rows of every view by its name, each as Dump does.
func Dumps(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, v := range projections.All() {
		all[v.Name()] = Dump(t, db, v.Name())
	}
	return all
}

// Touched returns the views for which the database has an event that creates, changes or removes a row.
func Touched(t *testing.T, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) map[string]bool {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select `+store.EventColumns+` from events`)
	list, err := pgx.CollectRows(rows, store.Scan)
	require.NoError(t, err)
	touched := map[string]bool{}
	for _, v := range projections.All() {
		touched[v.Name()] = slices.ContainsFunc(list, func(r events.Record) bool {
			b := &pgx.Batch{}
			v.Load(b, v.Name(), []events.Record{r})
			return b.Len() > 0
		})
	}
	return touched
}

// IgnoreProgress is a progress callback of rebuilds that does nothing.
func IgnoreProgress(int64, int64) {}

// RebuildView rebuilds a view.
func RebuildView(ctx context.Context, db *pgxpool.Pool, v fold.View, progress func(done, total int64)) (r rebuild.Result, err error) {
	err = rebuild.Views(ctx, db, []fold.View{v}, rebuild.Options{Progress: progress, Done: func(done rebuild.Result) { r = done }})
	return r, err
}

// Rebuild rebuilds a view and requires that it succeeds within Limit.
func Rebuild(t *testing.T, db *pgxpool.Pool, v fold.View) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	require.NoError(t, Err(RebuildView(ctx, db, v, IgnoreProgress)))
}

// View returns the view with the given name.
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

// Meta returns the metadata of a command that an actor sends over the API.
func Meta(workspace events.ID, by events.Actor) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}}
}

// System is the actor of what the service does by itself.
var System = events.Actor{Type: events.BySystem, Name: "system"}

// Err drops the result of a rebuild and returns its error.
func Err(_ rebuild.Result, err error) error { return err }
