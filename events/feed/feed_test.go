package feed_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
	"svc/test/world"
)

// newFeed returns a world in which only the feed is notified of appends.
func newFeed(t *testing.T) (*world.World, *feed.Feed) {
	t.Helper()
	w := world.NewSilent(t)
	f := feed.New(w.DB, slog.New(slog.DiscardHandler))
	log := store.New(w.DB, projections.Inline(), f.Moved)
	t.Cleanup(log.Close)
	w.Commands = commands.New(log, w.Clock.Now)
	return w, f
}

// start runs f until t ends.
func start(t *testing.T, f *feed.Feed) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

// follows reads after seq up to an event and requires that none is missing.
func follows(t *testing.T, watch *feed.Watch, seq, upTo int64) {
	t.Helper()
	for seq < upTo {
		list, err := watch.After(t.Context(), seq)
		require.NoError(t, err)
		for _, n := range list {
			require.Equal(t, seq+1, n.Seq)
			seq = n.Seq
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-watch.Moved:
		case <-time.After(world.Limit):
			require.FailNow(t, "nothing more came", "after %d of %d", seq, upTo)
		}
	}
}

func TestNewsHasOnlyKindTargetAndTime(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	watch := f.Watch(workspace, nil)
	defer watch.Close()
	run := w.QueueRun(t, workspace)
	list, err := watch.After(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, feed.News{
		Seq: 1, At: list[0].At, Kind: "run.queued", Target: events.Target{Type: "run", ID: run},
	}, list[0], "without the issue's name")
	require.False(t, list[0].At.IsZero())
}

// A database that hangs does not keep the feed from reading once it answers again.
func TestHeadsAreReadWithDeadline(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	db := world.Connect(t, w.URL, func(c *pgxpool.Config) { pgtest.RequireDeadlines(t, c) })
	f := feed.New(db, slog.New(slog.DiscardHandler))
	start(t, f)
	workspace := world.NewID()
	watch := f.Watch(workspace, nil)
	defer watch.Close()
	w.QueueRun(t, workspace)
	f.Moved(workspace, 0)
	select {
	case <-watch.Moved:
	case <-time.After(world.Limit):
		require.FailNow(t, "the head was not read")
	}
}

// While many write, watchers that start at the beginning, in the middle and at the head all
// read every later event once and in order.
func TestWatchersMissNothing(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	w.RecordCosts(t, workspace, run, 700) // more than a page
	const more = 600
	var group sync.WaitGroup
	group.Go(func() {
		for i := range more {
			w.RecordCosts(t, workspace, run, 1)
			if i%50 == 0 {
				f.Moved(workspace, 3) // a late message of the bus
			}
		}
	})
	for i := range 12 {
		group.Go(func() {
			watch := f.Watch(workspace, nil)
			defer watch.Close()
			head, err := watch.Head(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			follows(t, watch, []int64{0, 350, head}[i%3], 701+more)
		})
	}
	group.Wait()
}

// Events of another process are found even if the bus is unavailable.
func TestFeedPollsHeads(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	f := feed.New(w.DB, slog.New(slog.DiscardHandler))
	start(t, f)
	workspace := world.NewID()
	watch := f.Watch(workspace, nil)
	defer watch.Close()
	_, err := watch.Head(t.Context())
	require.NoError(t, err)
	w.QueueRun(t, workspace)
	follows(t, watch, 0, 1)
}

// A hint of another process says that a log, or any log, has grown, but not how far.
func TestFeedReadsHeadsOfHintedLogs(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	f := feed.New(w.DB, slog.New(slog.DiscardHandler))
	f.PollEvery(time.Hour)
	start(t, f)
	workspace, other := world.NewID(), world.NewID()
	watch, elsewhere := f.Watch(workspace, nil), f.Watch(other, nil)
	defer watch.Close()
	defer elsewhere.Close()
	run := w.QueueRun(t, workspace)
	w.QueueRun(t, other)
	f.Moved(world.NewID(), 0) // nobody watches that log
	f.Moved(workspace, 0)
	follows(t, watch, 0, 1)
	require.Empty(t, elsewhere.Moved)
	w.RecordCosts(t, workspace, run, 1)
	f.Moved(events.ID{}, 0)
	follows(t, watch, 1, 2)
	follows(t, elsewhere, 0, 1)
}

// The feed knows events that it was notified of, and needs to know none of logs that nobody
// watches.
func TestFeedKnowsNotifiedAndUnwatchedLogs(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	require.True(t, f.Knows(workspace, 1), "nobody watches it")
	watch := f.Watch(workspace, nil)
	require.False(t, f.Knows(workspace, 1))
	w.QueueRun(t, workspace)
	require.True(t, f.Knows(workspace, 1))
	require.False(t, f.Knows(workspace, 2))
	f.Moved(workspace, 0)
	require.False(t, f.Knows(workspace, 2), "a hint does not say how far")
	watch.Close()
	require.True(t, f.Knows(workspace, 2))
}

// A watcher that is behind what is kept in memory reads from the log.
func TestLaggingWatchCatchesUp(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	slow, quick := f.Watch(workspace, nil), f.Watch(workspace, nil)
	defer slow.Close()
	defer quick.Close()
	run := w.QueueRun(t, workspace)
	follows(t, slow, 0, 1)
	for at := int64(1); at < 1700; at += 100 {
		w.RecordCosts(t, workspace, run, 100)
		follows(t, quick, at, at+100)
	}
	follows(t, slow, 1, 1701)
	follows(t, quick, 1701, 1701)
}

func TestClosedWatchIsNotNotified(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace, elsewhere := world.NewID(), world.NewID()
	watch, other := f.Watch(workspace, nil), f.Watch(elsewhere, nil)
	defer other.Close()
	watch.Close()
	w.QueueRun(t, workspace)
	require.Empty(t, watch.Moved)
	require.Empty(t, other.Moved, "it is another workspace's")
	w.QueueRun(t, elsewhere)
	require.NotEmpty(t, other.Moved)
}
