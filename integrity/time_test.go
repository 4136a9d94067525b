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
	c := integrity.New(b.db, prover, newRing(t), func(string) bool { return leads }, interval, slog.New(slog.NewTextHandler(&b.logs, nil)))
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

// If the lease is held but nobody compares, a process reports that and compares, again and again.
func TestOverdueComparisonIsReportedAndDone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.orphan(t)
		c := b.run(t, false)
		time.Sleep(30 * time.Second)
		require.False(t, c.Overdue())
		require.Empty(t, c.DifferingRows())
		time.Sleep(20 * time.Second)
		require.True(t, c.Overdue())
		require.Equal(t, 1, c.DifferingRows()["unique_keys"])
		require.Equal(t, 1, b.logs.count("compares logs, views and keys: this one does, without the lease"), &b.logs.text)
		b.orphan(t)
		time.Sleep(3 * interval)
		require.Equal(t, 2, c.DifferingRows()["unique_keys"], "the next round")
		require.True(t, c.Overdue())
		require.Equal(t, 1, b.logs.count("without the lease"), &b.logs.text)

		leader := b.run(t, true)
		time.Sleep(4 * interval)
		require.Equal(t, 2, leader.DifferingRows()["unique_keys"])
		require.False(t, c.Overdue(), "somebody compares again")
		require.Empty(t, c.DifferingRows())
	})
}

// Progress cannot be forged without the key.
func TestForgedProgressIsIgnored(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]string{
		"made up": `
			insert into comparison_progress values (true, 1000000, gen_random_uuid(), gen_random_uuid(), '')
			on conflict (one) do update set count = excluded.count, last = excluded.last, process = excluded.process, mac = excluded.mac`,
		"counted on":        `update comparison_progress set count = count + 1`,
		"set back":          `update comparison_progress set (count, last, process, mac) = (select count, last, process, mac from kept)`,
		"moved":             `update comparison_progress set last = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`,
		"not to be decoded": `update comparison_progress set found = '{null}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bubble) {
				if name != "made up" {
					b.run(t, true)
					time.Sleep(2 * interval)
					b.exec(t, `create table kept as select * from comparison_progress`)
					time.Sleep(2 * interval)
					b.stop()
				}
				b.orphan(t)
				c := b.run(t, false)
				if name != "made up" {
					time.Sleep(2 * interval)
				}
				for range 40 {
					b.exec(t, forge)
					time.Sleep(time.Second)
					if name == "made up" {
						b.exec(t, `delete from comparison_progress`)
					}
				}
				require.True(t, c.Overdue())
				require.Equal(t, 1, c.DifferingRows()["unique_keys"])
				require.Positive(t, b.logs.count("progress of the comparison was changed or set back"), &b.logs.text)
			})
		})
	}
}

// The process that compares replaces progress that cannot be decoded.
func TestUnreadableProgressEndsNoComparison(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.run(t, true)
		time.Sleep(4 * interval)
		b.exec(t, `update comparison_progress set found = '{null}'`)
		b.orphan(t)
		time.Sleep(4 * interval)
		require.Equal(t, 1, c.DifferingRows()["unique_keys"])
		require.Equal(t, 1, b.logs.count("level=ERROR msg=\"progress of the comparison was changed"), &b.logs.text)
		require.Zero(t, b.logs.count("level=WARN"), &b.logs.text)
	})
}

// Of a list that nobody of this service wrote, only so much is read as one has.
func TestLongProgressIsNotRead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	require.NoError(t, integrity.SetProgress(t.Context(), db, newRing(t), newID()))
	_, err := db.Exec(t.Context(), `update comparison_progress set found = array_fill(process, '{100000}')`)
	require.NoError(t, err)
	var listed int
	require.NoError(t, db.QueryRow(t.Context(), `select cardinality(found) from comparison_progress`).Scan(&listed))
	require.Equal(t, 100_000, listed)
	found, err := integrity.FoundInProgress(t.Context(), db)
	require.NoError(t, err)
	require.LessOrEqual(t, len(found), 1000)
}

// Heads of logs that somebody made up, which nobody signs, do not delay the comparison of other workspaces for hours.
func TestMadeUpHeadsDelayNoComparison(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		id := b.orphan(t)
		b.exec(t, `insert into logs values ($1, 0, now())`, id)
		b.exec(t, `insert into logs select lpad(i::text, 32, '0')::uuid, 1, now() from generate_series(1, 200) i`)
		c := b.run(t, true)
		time.Sleep(time.Minute)
		require.Equal(t, 1, c.DifferingRows()["unique_keys"])
		require.Equal(t, 200, c.BadLogs())
		require.False(t, c.Overdue())
	})
}

// If a process ends during a round, another one continues it, after it has checked again where problems were
// found. That is also so after the key was rotated.
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
		require.NoError(t, integrity.SetProgress(t.Context(), b.db, ringOf(t, "o", "k"), done[1]))
		require.NoError(t, integrity.RotateProgress(t.Context(), b.db, ringOf(t, "k", "o")))
		second := b.run(t, true)
		time.Sleep(interval + time.Second)
		require.Equal(t, 2, second.DifferingRows()["unique_keys"], "what was found and is still so, and the rest of the round")
		b.exec(t, `insert into unique_keys values ($1, 'service_account/x', $1)`, done[0])
		time.Sleep(interval)
		require.Equal(t, 3, second.DifferingRows()["unique_keys"], "the next round")
		require.Zero(t, b.logs.count("progress of the comparison was changed"), &b.logs.text)
	})
}
