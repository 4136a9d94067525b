package proof

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/test/pgtest"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const limit = time.Minute

func newID() events.ID { return events.NewID(epoch) }

// A world is a database with a log.
type world struct {
	db  *pgxpool.Pool
	log *store.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{db: pgtest.New(t)}
	w.log = newLog(t, w.db, "a")
	return w
}

// newLog returns a store that authenticates its events with keys, of which provers know "a".
func newLog(t testing.TB, db *pgxpool.Pool, keys ...string) *store.Store {
	t.Helper()
	log := store.New(db, nil, func(events.ID, int64) {})
	t.Cleanup(log.Close)
	log.Authenticate(ringOf(t, keys...))
	return log
}

// keyed returns the world of a process with another key.
func (w *world) keyed(t testing.TB, key string) *world { return &world{w.db, newLog(t, w.db, key)} }

func ringOf(t testing.TB, keys ...string) vault.Ring {
	t.Helper()
	var list []config.Secret
	for _, k := range keys {
		list = append(list, config.Secret(strings.Repeat(k, 32)))
	}
	ring, err := vault.NewRing(list)
	require.NoError(t, err)
	return ring
}

func (w *world) prover(t testing.TB) *Prover {
	return New(w.db, ringOf(t, "a"), "svc.example.com", always, slog.New(slog.DiscardHandler))
}

// append adds n events to a log, a few in each commit.
func (w *world) append(t testing.TB, workspace events.ID, n int) {
	t.Helper()
	for n > 0 {
		c := &events.Commit{
			Workspace: workspace, At: epoch,
			Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem},
			Writes:   []events.Write{{Stream: newID()}},
		}
		for i := range min(n, 200) {
			c.Writes[0].Events = append(c.Writes[0].Events, events.RunCostRecorded{Repo: newID(), Cents: int64(i), Source: "compute", Quantity: 1})
		}
		n -= len(c.Writes[0].Events)
		_, err := w.log.Append(t.Context(), c)
		require.NoError(t, err)
	}
}

// catchUp runs a prover until it has caught up.
func catchUp(t testing.TB, p *Prover, workspace events.ID) {
	t.Helper()
	for more := []events.ID{workspace}; len(more) > 0; {
		var err error
		more, err = p.takePage(t.Context(), more)
		require.NoError(t, err)
	}
}

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := w.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// verify verifies a workspace as svc-db does.
func (w *world) verify(t testing.TB, workspace events.ID) Report {
	t.Helper()
	public, err := PublicKey(t.Context(), w.db)
	require.NoError(t, err)
	return w.check(t, workspace, Check{VerifierKey: public})
}

func (w *world) check(t testing.TB, workspace events.ID, c Check) Report {
	t.Helper()
	report, err := Verify(t.Context(), w.db, workspace, c)
	require.NoError(t, err)
	return report
}

// run runs a prover until t ends.
func run(t *testing.T, p *Prover) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
}

// awaitCheckpoint waits until the newest checkpoint covers that many events.
func (w *world) awaitCheckpoint(t *testing.T, workspace events.ID, size int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		var at int64
		err := w.db.QueryRow(t.Context(), `select coalesce(max(size), 0) from proof_checkpoints where workspace_id = $1`, workspace).Scan(&at)
		return err == nil && at == size
	}, limit, 5*time.Millisecond, fmt.Sprint(size))
}

func always(string) bool { return true }
