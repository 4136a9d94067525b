package follow_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const waitLimit = time.Minute

// A counter processes logs by moving their checkpoints to a head of 3, one event at a time.
type counter struct {
	db      *pgxpool.Pool
	bad     events.ID
	calls   atomic.Int64
	maxLogs atomic.Int64 // the largest number of logs in one call
}

var errBad = errors.New("this one is bad")

func (c *counter) handle(ctx context.Context, workspaces []events.ID) (more []events.ID, err error) {
	c.calls.Add(1)
	c.maxLogs.Store(max(c.maxLogs.Load(), int64(len(workspaces))))
	return more, pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, "counter", workspaces)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Workspace == c.bad {
				return errBad
			}
			if list[i].Seq++; list[i].Seq < 3 {
				more = append(more, list[i].Workspace)
			}
		}
		b := &pgx.Batch{}
		follow.QueueMove(b, "counter", list)
		return tx.SendBatch(ctx, b).Close()
	})
}

func newLogs(t *testing.T, db *pgxpool.Pool, n int) (list []events.ID) {
	t.Helper()
	for range n {
		list = append(list, events.NewID(time.Now()))
	}
	_, err := db.Exec(t.Context(), `insert into logs (workspace_id, head, last_at) select id, 3, now() from unnest($1::uuid[]) as id`, list)
	require.NoError(t, err)
	return list
}

func positions(t *testing.T, db *pgxpool.Pool) map[int64]int {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select seq, count(*) from checkpoints where view = 'counter' group by 1`)
	count := map[int64]int{}
	var seq int64
	var n int
	_, err := pgx.ForEachRow(rows, []any{&seq, &n}, func() error { count[seq] = n; return nil })
	require.NoError(t, err)
	return count
}

func run(t *testing.T, f *follow.Follower, handle follow.Handler) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f.Run(ctx, handle) })
	t.Cleanup(func() { stop(); done.Wait() })
}

// Many logs share transactions. If one fails, the others are processed in separate transactions.
func TestFailingLogDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	list := newLogs(t, db, 200)
	c := &counter{db: db, bad: list[77]}
	f := follow.New(db, "counter", func(string) bool { return true }, slog.New(slog.DiscardHandler))
	run(t, f, c.handle)
	require.Eventually(t, func() bool { return positions(t, db)[3] == 199 }, waitLimit, time.Millisecond)
	require.Equal(t, 1, f.Stuck())
	require.Equal(t, map[int64]int{3: 199}, positions(t, db), "the bad one never began")
	require.Greater(t, c.maxLogs.Load(), int64(50))
	require.Less(t, c.calls.Load(), int64(400), "three events of 136 logs in three calls each, and 64 alone")
}

// A log that is far behind delays others by one page: those that were found with it, and those that grow later.
func TestFarBehindLogDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	logs := newLogs(t, db, 3)
	far, second, later := logs[0], logs[1], logs[2]
	_, err := db.Exec(t.Context(), `update logs set head = case workspace_id when $1 then 2000 when $2 then 3000 else 0 end`, far, second)
	require.NoError(t, err)
	f := follow.New(db, "counter", func(string) bool { return true }, slog.New(slog.DiscardHandler))
	var pages, before, after atomic.Int64
	run(t, f, func(_ context.Context, batch []events.ID) (more []events.ID, _ error) {
		switch batch[0] {
		case second:
			before.Store(pages.Load())
		case later:
			after.Store(pages.Load())
		case far:
			if pages.Add(1) == 2 {
				f.Moved(later)
			}
			if after.Load() == 0 {
				return batch, nil
			}
		}
		return nil, nil
	})
	require.Eventually(t, func() bool { return after.Load() > 0 }, waitLimit, time.Millisecond)
	require.Equal(t, int64(1), before.Load())
}

// Two followers that both believe they lead must not do the same work twice.
func TestOnlyOneFollowerProcessesALog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	list := newLogs(t, db, 10)
	c := &counter{db: db}
	_, err := c.handle(t.Context(), list)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		held, err := follow.LockCheckpoints(t.Context(), tx, "counter", list[:4])
		require.NoError(t, err)
		require.Len(t, held, 4)
		more, err := c.handle(t.Context(), list)
		require.NoError(t, err)
		require.ElementsMatch(t, list[4:], more)
		return nil
	}))
	require.Equal(t, map[int64]int{1: 4, 2: 6}, positions(t, db))
}

// A follower that does not lead does no work, and starts when it leads.
func TestOnlyTheLeaderWorks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	newLogs(t, db, 3)
	var leads atomic.Bool
	asked := make(chan struct{}, 100)
	c := &counter{db: db}
	f := follow.New(db, "counter", func(string) bool {
		asked <- struct{}{}
		return leads.Load()
	}, slog.New(slog.DiscardHandler))
	run(t, f, c.handle)
	for range 3 {
		f.Moved(events.ID{})
		<-asked
	}
	require.Zero(t, c.calls.Load())
	leads.Store(true)
	f.Moved(events.ID{})
	require.Eventually(t, func() bool { return positions(t, db)[3] == 3 }, waitLimit, time.Millisecond)
}

// An errorLog passes on at what failed.
type errorLog chan string

func (l errorLog) Enabled(context.Context, slog.Level) bool { return true }
func (l errorLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l errorLog) WithGroup(string) slog.Handler            { return l }
func (l errorLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "at" {
			select {
			case l <- a.Value.String():
			default: // nobody waits for so many
			}
		}
		return true
	})
	return nil
}

// A query that hangs ends with an error. When the database answers again, the follower goes on.
func TestHungQueryEndsAndIsRetried(t *testing.T) {
	t.Parallel()
	for what, mode := range map[string]string{
		"a log":                        "exclusive",        // locking a checkpoint hangs, reading it does not
		"finding logs that have grown": "access exclusive", // reading hangs
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			newLogs(t, db, 3)
			held, err := db.Begin(t.Context())
			require.NoError(t, err)
			defer held.Rollback(context.WithoutCancel(t.Context()))
			_, err = held.Exec(t.Context(), `lock table checkpoints in `+mode+` mode`)
			require.NoError(t, err)

			failed := make(errorLog, 100)
			f := follow.New(db, "counter", func(string) bool { return true }, slog.New(failed))
			f.TimeOutPagesAfter(time.Second)
			c := &counter{db: db}
			run(t, f, c.handle)
			require.Eventually(t, func() bool {
				select {
				case at := <-failed:
					return at == what
				default:
					return false
				}
			}, waitLimit, time.Millisecond, "the query goes on")
			require.NoError(t, held.Rollback(t.Context()))
			require.Eventually(t, func() bool { return positions(t, db)[3] == 3 }, waitLimit, time.Millisecond)
			require.Eventually(t, func() bool { return f.Stuck() == 0 }, waitLimit, time.Millisecond)
		})
	}
}

func TestEnds(t *testing.T) {
	a, b, c := events.NewID(time.Now()), events.NewID(time.Now()), events.NewID(time.Now())
	list := []events.Record{{Workspace: a, Seq: 7}, {Workspace: a, Seq: 8}, {Workspace: b, Seq: 1}, {Workspace: c, Seq: 3},
		{Workspace: c, Seq: 4}}
	require.Equal(t, []store.Position{{Workspace: a, Seq: 8}, {Workspace: b, Seq: 1}, {Workspace: c, Seq: 4}}, follow.Ends(list))
}
