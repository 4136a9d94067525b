package fold_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// A queryCounter counts the queries for positions.
type queryCounter struct{ queries atomic.Int64 }

func (c *queryCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "select coalesce((select") {
		c.queries.Add(1)
	}
	return ctx
}

func (*queryCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedFollower returns a follower that does not run, and a counter of its queries.
func countedFollower(t *testing.T, w *world.World) (*fold.Follower, *queryCounter) {
	t.Helper()
	c := &queryCounter{}
	db := world.Connect(t, w.URL, func(config *pgxpool.Config) { config.ConnConfig.Tracer = c })
	return fold.NewFollower(db, projections.Followed(), func(string) bool { return false }, slog.New(slog.DiscardHandler)), c
}

// However many requests wait for a view of a workspace, one of them polls.
func TestWaitersForTheSamePositionShareQueries(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	w.QueueRun(t, workspace)
	for _, view := range []string{"runs", ""} {
		f, c := countedFollower(t, w)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		var waiting sync.WaitGroup
		for i := range 500 {
			waiting.Go(func() {
				if err := f.Await(ctx, view, workspace, 1_000_000+int64(i%3)); !errors.Is(err, fold.ErrNotCaughtUp) {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		stop()
		// Polling pauses double, so one second has about a dozen of them. Newcomers poll without a
		// pause.
		require.Less(t, c.queries.Load(), int64(200), view)
		require.Positive(t, c.queries.Load())
	}
}

// When the polling request is satisfied, another request takes over.
func TestEveryWaiterReachesItsPosition(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	f, _ := countedFollower(t, w)
	const most = 40
	var waiting sync.WaitGroup
	var heard atomic.Int64
	for seq := range int64(most) {
		for range 3 {
			waiting.Go(func() {
				world.Await(t, f, "", workspace, seq+1)
				heard.Add(1)
			})
		}
	}
	w.RecordCosts(t, workspace, run, most-1)
	waiting.Wait()
	require.EqualValues(t, 3*most, heard.Load())
}

// Progress in another log does not wake requests that wait for this one.
func TestPageWakesOnlyItsWaiters(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	c := &queryCounter{}
	w.Follower = world.Follow(t, world.Connect(t, w.URL, func(config *pgxpool.Config) { config.ConnConfig.Tracer = c }))
	log := store.New(w.DB, projections.Inline(), w.Follower.Moved)
	t.Cleanup(log.Close)
	w.Commands = commands.New(log, w.Clock.Now)
	workspace, elsewhere := world.NewID(), world.NewID()
	run := w.QueueRun(t, elsewhere)
	w.QueueRun(t, workspace)
	w.CaughtUp(t)

	before, begun := c.queries.Load(), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for _, view := range []string{"runs", "audit", ""} {
		waiting.Go(func() {
			for ctx.Err() == nil {
				_ = w.Follower.Await(ctx, view, workspace, 1_000_000)
			}
		})
	}
	w.RecordCosts(t, elsewhere, run, 200)
	stop()
	waiting.Wait()
	pauses := time.Since(begun) / (200 * time.Millisecond)
	require.Less(t, c.queries.Load()-before, 3*(20+int64(pauses)), "grows with the pauses, not with the events")

	heard := make(chan error, 1)
	go func() { heard <- w.Follower.Await(t.Context(), "runs", elsewhere, 201) }()
	select {
	case err := <-heard:
		require.NoError(t, err)
	case <-time.After(world.Limit):
		require.FailNow(t, "it did not hear of its own")
	}
}

func TestReadsOfServerThatLagsAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun time.Time
		var reads int
		readAfter := func(ctx context.Context, lag time.Duration, then error) (int, error) {
			begun, reads = time.Now(), 0
			return fold.RetryBehind(ctx, func() (int, error) {
				if reads++; time.Since(begun) < lag {
					return 0, fmt.Errorf("read: %w", fold.ErrNotCaughtUp)
				}
				return 7, then
			})
		}
		n, err := readAfter(t.Context(), 4*time.Second, nil)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Less(t, time.Since(begun), 5*time.Second)
		require.Less(t, reads, 50, "pauses double")

		_, err = readAfter(t.Context(), time.Second, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Less(t, time.Since(begun), 2*time.Second, "of another error it is not tried again")

		_, err = readAfter(t.Context(), time.Hour, nil)
		require.ErrorIs(t, err, fold.ErrNotCaughtUp)
		require.Equal(t, 5*time.Second, time.Since(begun))

		left, leave := context.WithCancel(t.Context())
		leave()
		_, err = readAfter(left, time.Hour, nil)
		require.ErrorIs(t, err, fold.ErrNotCaughtUp)
		require.Zero(t, time.Since(begun))
	})
}
