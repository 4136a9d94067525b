package fold_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// keepTables copies tables, and returns a function that restores them in one transaction.
func keepTables(t *testing.T, db *pgxpool.Pool, tables []string) (restore func() error) {
	t.Helper()
	for _, table := range tables {
		_, err := db.Exec(t.Context(), fmt.Sprintf(`create table kept_%[1]s as table %[1]s`, table))
		require.NoError(t, err)
	}
	return func() error {
		return pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			for _, table := range tables {
				if _, err := tx.Exec(t.Context(), fmt.Sprintf(`delete from %[1]s; insert into %[1]s table kept_%[1]s`, table)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// allTables returns the names of all tables.
func allTables(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'public'`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// newWorldWithKnownPositions returns a world whose views are level in a log, and whose follower remembers where.
func newWorldWithKnownPositions(t *testing.T) (w *world.World, workspace events.ID) {
	t.Helper()
	w, p := newCountedWorld(t)
	workspace = world.NewID()
	require.Eventually(t, func() bool {
		awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
		return p.claimed() > 0
	}, world.Limit, time.Millisecond)
	return w, workspace
}

// The views and their checkpoints go back, the log does not, and nothing is appended to it: PostgreSQL crashed
// and lost the last commits of views.
func TestViewsCatchUpAfterTheirLastCommitsWereLost(t *testing.T) {
	t.Parallel()
	w, workspace := newWorldWithKnownPositions(t)
	restore := keepTables(t, w.DB, append(allFollowed(), "checkpoints"))
	head := grow(t, w, workspace, 3)
	awaitViews(t, w, workspace, head, allFollowed()...)
	require.NoError(t, restore())
	awaitViews(t, w, workspace, head, allFollowed()...)
	world.RequireRebuilt(t, w.DB)
}

// A backup is restored while the process goes on.
func TestViewsCatchUpAfterRestore(t *testing.T) {
	t.Parallel()
	w, workspace := newWorldWithKnownPositions(t)
	restore := keepTables(t, w.DB, allTables(t, w.DB))
	awaitViews(t, w, workspace, grow(t, w, workspace, 10), allFollowed()...)
	require.NoError(t, restore())
	awaitViews(t, w, workspace, grow(t, w, workspace, 2), allFollowed()...)
	world.RequireRebuilt(t, w.DB)
}

// A page that was read ahead before a backup was restored is not used after it.
func TestReadAheadDoesNotOutliveARestore(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	grow(t, w, workspace, 896)
	run := w.QueueRun(t, workspace)
	restore := keepTables(t, w.DB, allTables(t, w.DB))
	spend := func(cents int64, times int) (head int64) {
		list := make([]events.Event, times)
		for i := range list {
			list[i] = events.RunCostRecorded{Cents: cents, Source: "compute"}
		}
		records := w.Record(t, world.System, workspace, run, list...)
		return records[len(records)-1].Seq
	}
	head := spend(1000, 401)

	var leads atomic.Bool // false: another process leads view runs
	leads.Store(true)
	w.Follower = fold.NewFollower(w.DB, projections.Followed(), func(view string) bool { return leads.Load() || view != "runs" },
		slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Follower.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	awaitViews(t, w, workspace, head, allFollowed()...) // two pages: up to 1000, and the rest, which is read ahead

	require.NoError(t, restore())
	leads.Store(false) // the lease goes to another process, and comes back, so that positions are forgotten
	head = spend(1, 1)
	w.Follower.Moved(workspace, head)
	awaitViews(t, w, workspace, head, "audit")
	leads.Store(true)
	for head <= 1000 { // once a page begins at 1000
		head = spend(1, 1)
		w.Follower.Moved(workspace, head)
		awaitViews(t, w, workspace, head, allFollowed()...)
	}
	for _, l := range lags(t, w.DB, allFollowed()...) {
		require.Equal(t, head, l.Taken, l.View)
	}
	world.RequireRebuilt(t, w.DB)
}

// A claimHook is called before the first page of all views that claims its checkpoints.
type claimHook struct {
	passCounter
	once sync.Once
	call func()
}

func (h *claimHook) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		if strings.Contains(q.SQL, "update checkpoints c set seq = m.seq") {
			h.once.Do(h.call)
		}
	}
	return ctx
}

// A replica that did not get the last events takes over when they were read, but not yet folded. The views do not fold
// them, and process those that are appended in their place.
func TestViewsDoNotFoldEventsThatFailoverLost(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	w.RecordCosts(t, workspace, run, 1100) // more than a page: the second one is claimed
	log := slices.DeleteFunc(allTables(t, w.DB), func(table string) bool {
		return table == "checkpoints" || slices.Contains(allFollowed(), table)
	})
	restore := keepTables(t, w.DB, log)
	w.RecordCosts(t, workspace, run, 50)
	lost := make(chan error, 1)
	h := &claimHook{passCounter: passCounter{separate: map[string]int{}}, call: func() { lost <- restore() }}
	w.Follower = world.Follow(t, world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = h }))
	require.NoError(t, <-lost)
	head := grow(t, w, workspace, 10)
	awaitViews(t, w, workspace, head, allFollowed()...)
	for _, l := range lags(t, w.DB, allFollowed()...) {
		require.Equal(t, head, l.Taken, l.View)
	}
	world.RequireRebuilt(t, w.DB)
}
