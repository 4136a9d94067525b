package feed_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/events/store"
	"svc/projections"
	"svc/test/world"
)

// setBack deletes the events after seq, as restoring a backup does.
func setBack(t *testing.T, w *world.World, workspace events.ID, seq int64) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), w.DB, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`delete from events where workspace_id = $1 and seq > $2`,
			`update logs set head = $2 where workspace_id = $1`,
		} {
			if _, err := tx.Exec(t.Context(), sql, workspace, seq); err != nil {
				return err
			}
		}
		return nil
	}))
}

// growSilently appends n events of new runs, of which no feed is notified.
func growSilently(t *testing.T, w *world.World, workspace events.ID, n int) {
	t.Helper()
	log := store.New(w.DB, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	silent := &world.World{DB: w.DB, Clock: w.Clock, Log: log, Commands: commands.New(log, w.Clock.Now)}
	for range n {
		silent.QueueRun(t, workspace)
	}
}

// untilSetBack waits until the watch is told that the log was set back.
func untilSetBack(t *testing.T, watch *feed.Watch, seq int64) {
	t.Helper()
	for {
		list, err := watch.After(t.Context(), seq)
		if err != nil {
			require.ErrorIs(t, err, feed.ErrSetBack)
			return
		}
		require.Empty(t, list)
		select {
		case <-watch.Moved:
		case <-time.After(world.Limit):
			require.FailNow(t, "the watch was not told")
		}
	}
}

// A backup is restored, or a replica that lacks the newest events takes over, while somebody watches.
// The feed polls, and everybody sees what the log has afterwards.
func TestWatchersStartAgainAfterLogWasSetBack(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	logs := &bytes.Buffer{}
	f := feed.New(w.DB, slog.New(slog.NewTextHandler(logs, nil)))
	f.PollEvery(time.Millisecond)
	workspace := world.NewID()
	first := w.QueueRun(t, workspace)
	w.RecordCosts(t, workspace, first, 9)
	reader, idle := f.Watch(workspace, nil), f.Watch(workspace, nil)
	defer reader.Close()
	defer idle.Close()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	follows(t, reader, 0, 10)
	setBack(t, w, workspace, 1)
	untilSetBack(t, reader, 10)
	untilSetBack(t, idle, 10)
	untilSetBack(t, idle, 0)
	late := f.Watch(workspace, nil)
	defer late.Close()
	for _, watch := range []*feed.Watch{reader, late, idle} {
		head, err := watch.Head(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, head)
		list, err := watch.After(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, list, "they no longer exist")
	}
	second := w.QueueRun(t, workspace)
	for _, watch := range []*feed.Watch{reader, late, idle} {
		follows(t, watch, 1, 2)
		list, err := watch.After(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, events.Target{Type: "run", ID: second}, list[0].Target)
	}
	stop()
	running.Wait()
	require.Equal(t, 1, strings.Count(logs.String(), "level=ERROR"), logs)
	require.Contains(t, logs.String(), workspace.String())
}

// A client that connects notices it before the next poll.
func TestNewWatchNoticesThatLogWasSetBack(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	watch, late := f.Watch(workspace, nil), f.Watch(workspace, nil)
	defer watch.Close()
	defer late.Close()
	w.RecordCosts(t, workspace, w.QueueRun(t, workspace), 9)
	follows(t, watch, 0, 10)
	<-watch.Moved
	setBack(t, w, workspace, 1)
	head, err := late.Head(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, head)
	require.False(t, f.Knows(workspace, 2), "another process may append it")
	require.NotEmpty(t, watch.Moved)
	untilSetBack(t, watch, 10)
	late.Close()
	watch.Close() // has not started again
	require.True(t, f.Knows(workspace, 2), "nobody watches it")
}

// A log that was set back and has grown again has other events at the positions that the feed knows.
func TestGrownLogThatWasSetBackIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads bool // the watch has read events, not only the head
		grown int
		then  func(t *testing.T, w *world.World, f *feed.Feed, watch *feed.Watch, workspace events.ID)
	}{
		"beyond, notified": {true, 11, func(_ *testing.T, _ *world.World, f *feed.Feed, _ *feed.Watch, workspace events.ID) {
			f.Moved(workspace, 12)
		}},
		"beyond, notified, idle": {false, 11, func(_ *testing.T, _ *world.World, f *feed.Feed, _ *feed.Watch, workspace events.ID) {
			f.Moved(workspace, 12)
		}},
		"beyond, polled": {true, 11, func(t *testing.T, _ *world.World, f *feed.Feed, _ *feed.Watch, _ events.ID) {
			f.PollEvery(time.Millisecond)
			start(t, f)
		}},
		"as far, polled": {true, 9, func(t *testing.T, _ *world.World, f *feed.Feed, _ *feed.Watch, _ events.ID) {
			f.PollEvery(time.Millisecond)
			start(t, f)
		}},
		"as far, a new client": {false, 9, func(t *testing.T, _ *world.World, f *feed.Feed, _ *feed.Watch, workspace events.ID) {
			late := f.Watch(workspace, nil)
			defer late.Close()
			head, err := late.Head(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 10, head)
		}},
		"beyond, the known event is missing": {true, 11, func(t *testing.T, w *world.World, f *feed.Feed, _ *feed.Watch, workspace events.ID) {
			_, err := w.DB.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 10`, workspace)
			require.NoError(t, err)
			f.Moved(workspace, 12)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := newFeed(t)
			workspace := world.NewID()
			w.RecordCosts(t, workspace, w.QueueRun(t, workspace), 9)
			watch := f.Watch(workspace, nil)
			defer watch.Close()
			head, err := watch.Head(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 10, head)
			if c.reads {
				follows(t, watch, 0, 10)
			}
			setBack(t, w, workspace, 1)
			growSilently(t, w, workspace, c.grown)
			c.then(t, w, f, watch, workspace)
			untilSetBack(t, watch, 10)
			head, err = watch.Head(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1+c.grown, head)
			w.QueueRun(t, workspace)
			follows(t, watch, head, head+1)
		})
	}
}

// A watcher far behind that reads across the place where the log differs starts again as well.
func TestLaggingWatchNoticesThatLogWasSetBack(t *testing.T) {
	t.Parallel()
	w, f := newFeed(t)
	workspace := world.NewID()
	slow, quick := f.Watch(workspace, nil), f.Watch(workspace, nil)
	defer slow.Close()
	defer quick.Close()
	w.RecordCosts(t, workspace, w.QueueRun(t, workspace), 9)
	follows(t, quick, 8, 10)
	setBack(t, w, workspace, 1)
	growSilently(t, w, workspace, 11)
	untilSetBack(t, slow, 0)
	untilSetBack(t, quick, 10)
}

// A head that was read before an append, or from a standby that lags, is lower than what is known, and so
// it says nothing.
func TestStaleHeadDoesNotSetBack(t *testing.T) {
	t.Parallel()
	for name, isStandby := range map[string]bool{"read before an append": false, "read from a standby": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world.NewSilent(t)
			workspace := world.NewID()
			growSilently(t, w, workspace, 9)
			if isStandby {
				_, err := w.DB.Exec(t.Context(), `create schema standby`)
				require.NoError(t, err)
				_, err = w.DB.Exec(t.Context(), `create function standby.pg_is_in_recovery() returns bool language sql as 'select true'`)
				require.NoError(t, err)
			}
			var appendTo atomic.Pointer[feed.Feed]
			db := world.Connect(t, w.URL, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.RuntimeParams["search_path"] = "standby, pg_catalog, public"
				c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
					f := appendTo.Swap(nil)
					if f == nil {
						_, err := conn.Exec(ctx, `drop table if exists pg_temp.logs`)
						return true, err
					}
					_, err := conn.Exec(ctx, `create temporary table logs as select workspace_id, head from public.logs`)
					growSilently(t, w, workspace, 1)
					f.Moved(workspace, 10)
					return true, err
				}
			})
			f := feed.New(db, slog.New(slog.DiscardHandler))
			watch := f.Watch(workspace, nil)
			defer watch.Close()
			follows(t, watch, 9, 9)
			_, err := watch.Head(t.Context())
			require.NoError(t, err)
			if isStandby {
				f.Moved(workspace, 10) // known before the question
			}
			appendTo.Store(f)
			head, err := watch.Head(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 9, head)
			follows(t, watch, 9, 10)
		})
	}
}
