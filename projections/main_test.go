package projections_test

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
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// limit bounds whatever a test waits for.
const limit = time.Minute

func newID() events.ID { return events.NewID(epoch) }

func ptr[T any](v T) *T { return &v }

// A clock is what the handlers of a test take for the time. It moves on with
// every look at it, by a step that is no whole number of milliseconds.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(1_234_567 * time.Nanosecond)
	return c.at
}

// A world is a database with one process at work: a store with the inline
// views, a handler, a follower.
type world struct {
	url      string
	db       *pgxpool.Pool
	clock    *clock
	log      *store.Store
	commands *commands.Handler
	follower *projections.Follower
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{url: pgtest.URL(t), clock: &clock{at: epoch}}
	w.db = connect(t, w.url)
	w.follower = follow(t, w.db)
	w.log = store.New(w.db, projections.Inline(), w.follower.Moved)
	t.Cleanup(w.log.Close)
	w.commands = commands.New(w.log, w.clock.now)
	return w
}

// newSilentWorld is one in which nobody follows yet, and nobody is told.
func newSilentWorld(t *testing.T) *world {
	t.Helper()
	w := &world{url: pgtest.URL(t), clock: &clock{at: epoch}}
	w.db = connect(t, w.url)
	w.log = store.New(w.db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(w.log.Close)
	w.commands = commands.New(w.log, w.clock.now)
	return w
}

// connect returns a pool of its own on the database at url.
func connect(t *testing.T, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
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

// follow runs a follower until t ends.
func follow(t *testing.T, db *pgxpool.Pool) *projections.Follower {
	t.Helper()
	f := projections.NewFollower(db, func(string) bool { return true }, slog.New(slog.DiscardHandler))
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

// caughtUp waits until every followed view has taken in every log.
func (w *world) caughtUp(t *testing.T) {
	t.Helper()
	rows, _ := w.db.Query(t.Context(), `select workspace_id, head from logs`)
	type log struct {
		Workspace events.ID
		Head      int64
	}
	logs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[log])
	require.NoError(t, err)
	for _, l := range logs {
		for _, v := range projections.Followed() {
			await(t, w.follower, v.Name(), l.Workspace, l.Head)
		}
	}
}

// await is as patient as a test is.
func await(t *testing.T, f *projections.Follower, view string, workspace events.ID, seq int64) {
	t.Helper()
	for begun := time.Now(); ; {
		err := f.Await(t.Context(), view, workspace, seq)
		if errors.Is(err, projections.ErrNotCaughtUp) && time.Since(begun) < limit {
			continue
		}
		require.NoError(t, err, view)
		return
	}
}

// dump returns the rows of a view as PostgreSQL writes them.
func dump(t *testing.T, db *pgxpool.Pool, view string) []string {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select t::text from `+view+` t order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

func dumps(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, v := range projections.All() {
		all[v.Name()] = dump(t, db, v.Name())
	}
	return all
}

func quiet(int64, int64) {}

// rebuild rebuilds a view and requires that it worked.
func rebuild(t *testing.T, db *pgxpool.Pool, v projections.View) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, only(projections.Rebuild(ctx, db, v, quiet)))
}

func view(t testing.TB, name string) projections.View {
	t.Helper()
	for _, v := range projections.All() {
		if v.Name() == name {
			return v
		}
	}
	require.FailNow(t, "no such view", name)
	return nil
}

// order is that of somebody who may do anything.
func meta(workspace events.ID, by events.Actor) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}}
}

var system = events.Actor{Type: events.BySystem, Name: "system"}

func only(_ projections.Rebuilt, err error) error { return err }
