package integrity_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/integrity"
	"svc/proof"
	"svc/test/pgtest"
)

const interval = 5 * time.Second

// A bubble is a database in a synctest bubble, with the processes that use it.
type bubble struct {
	db    *pgxpool.Pool
	logs  logCapture
	stops []func()
	group sync.WaitGroup
}

func inBubble(t *testing.T, test func(t *testing.T, b *bubble)) {
	t.Helper()
	address := pgtest.URL(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := pgxpool.New(t.Context(), address) // a separate pool: a connection belongs to one bubble
		require.NoError(t, err)
		defer db.Close()
		b := &bubble{db: db}
		defer b.stop()
		test(t, b)
	})
}

func (b *bubble) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// orphan inserts a row of a workspace without a log, and returns the workspace.
func (b *bubble) orphan(t *testing.T) events.ID {
	t.Helper()
	id := newID()
	b.exec(t, `insert into unique_keys values ($1, 'service_account/x', $1)`, id)
	return id
}

// run starts the checker of a process that has the lease or not.
func (b *bubble) run(t *testing.T, leads bool) *integrity.Checker {
	t.Helper()
	prover := proof.New(b.db, newRing(t), "svc.example.com", func(string) bool { return false }, slog.New(slog.DiscardHandler))
	c := integrity.New(b.db, prover, func(string) bool { return leads }, interval, slog.New(slog.NewTextHandler(&b.logs, nil)))
	ctx, stop := context.WithCancel(t.Context())
	b.stops = append(b.stops, stop)
	b.group.Go(func() { c.Run(ctx) })
	return c
}

// stop stops all processes.
func (b *bubble) stop() {
	for _, stop := range b.stops {
		stop()
	}
	b.group.Wait()
}

// If nobody compares, every process reports that, until somebody does.
func TestOverdueComparisonIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.orphan(t)
		c := b.run(t, false)
		time.Sleep(30 * time.Second)
		require.False(t, c.Overdue())
		require.Empty(t, c.DifferingRows())
		time.Sleep(20 * time.Second)
		require.True(t, c.Overdue())
		require.Contains(t, c.Warnings()["comparison"], "No process makes progress")
		require.Equal(t, 1, b.logs.count("level=ERROR"), &b.logs.text)
		require.Equal(t, 1, b.logs.count("no process compares logs, views and keys"), &b.logs.text)

		leader := b.run(t, true)
		time.Sleep(4 * interval)
		require.Equal(t, 1, leader.DifferingRows()["unique_keys"])
		require.False(t, c.Overdue(), "somebody compares again")
		require.Empty(t, c.DifferingRows())
	})
}

// If a process ends during a round, another one continues it, after it has checked again where problems were
// found.
func TestRoundContinuesInAnotherProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		done := []events.ID{{15: 1}, {15: 2}}
		for _, id := range append(done, events.ID{15: 3}) {
			b.exec(t, `insert into logs (workspace_id, head, last_at) values ($1, 0, now())`, id)
			b.exec(t, `insert into unique_keys values ($1, 'service_account/x', $1)`, id)
		}
		first := b.run(t, true)
		time.Sleep(2 * interval)
		require.Equal(t, 3, first.DifferingRows()["unique_keys"])
		b.stop()
		b.exec(t, `delete from unique_keys where workspace_id = $1`, done[0])
		b.exec(t, `update comparison_progress set last = $1`, done[1])
		second := b.run(t, true)
		time.Sleep(interval + time.Second)
		require.Equal(t, 2, second.DifferingRows()["unique_keys"], "what was found and is still so, and the rest of the round")
		b.exec(t, `insert into unique_keys values ($1, 'service_account/x', $1)`, done[0])
		time.Sleep(interval)
		require.Equal(t, 3, second.DifferingRows()["unique_keys"], "the next round")
	})
}
