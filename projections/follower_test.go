package projections_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
)

// queued puts an issue in the queue and returns its run.
func (w *world) queued(t *testing.T, workspace events.ID) events.ID {
	t.Helper()
	run := newID()
	_, err := w.commands.QueueRun(t.Context(), commands.QueueRun{
		Meta: meta(workspace, system), Run: run, Repo: events.Repo{ID: newID(), Name: "acme/web"}, IssueNumber: 1, IssueTitle: "Count",
	})
	require.NoError(t, err)
	return run
}

// bill records costs for a run, one command each, and returns their sum.
func bill(t *testing.T, h *commands.Handler, workspace, run events.ID, n int, answered func()) (sum int64) {
	for range n {
		cents := rand.Int64N(1_000_000)
		_, err := h.RecordRun(t.Context(), commands.RecordRun{
			Meta: meta(workspace, system), Run: run, Facts: []events.Event{events.RunCostRecorded{Cents: cents, Source: "compute"}},
		})
		if !assert.NoError(t, err) {
			return sum
		}
		sum += cents
		answered()
	}
	return sum
}

// Three followers in three processes, all told of everything, while bills come
// in: an event that is taken in twice, or not, shows in the sum.
func TestSeveralFollowersTakeInEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	others := []*projections.Follower{follow(t, connect(t, w.url)), follow(t, connect(t, w.url))}
	log := store.New(connect(t, w.url), projections.Inline(), func(workspace events.ID, head int64) {
		w.follower.Moved(workspace, head)
		for _, f := range others {
			f.Moved(workspace, head)
		}
	})
	t.Cleanup(log.Close)
	handler := commands.New(log, w.clock.now)

	const bills = 40
	type account struct{ workspace, run events.ID }
	var accounts []account
	for range 2 {
		workspace := newID()
		for range 4 {
			accounts = append(accounts, account{workspace, w.queued(t, workspace)})
		}
	}
	sums := make([]int64, len(accounts))
	var all sync.WaitGroup
	for i, a := range accounts {
		all.Go(func() { sums[i] = bill(t, handler, a.workspace, a.run, bills, func() {}) })
	}
	all.Wait()
	w.caughtUp(t)
	for i, a := range accounts {
		run, ok, err := projections.Runs{DB: w.db}.Of(t.Context(), a.workspace, a.run)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, sums[i], run.CostCents)
		records, err := w.log.Load(t.Context(), a.workspace, a.run, 0)
		require.NoError(t, err)
		require.Len(t, records, 1+bills)
		require.Equal(t, records[bills].At, run.UpdatedAt.UTC(), "the last one was the last")
	}
	requireRebuilt(t, w.db)
}

// requireRebuilt requires that a rebuild of the followed views changes nothing.
func requireRebuilt(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	for _, v := range []string{"runs", "audit"} {
		live := dump(t, db, v)
		require.True(t, len(live) > 0 || v == "audit", "of less than a block of events it has no row")
		rebuild(t, db, view(t, v))
		require.Equal(t, live, dump(t, db, v), v)
	}
}

// Somebody ends all connections of the followers, again and again.
func TestAFollowerGoesOnWhenItsConnectionsAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	victims := connect(t, w.url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "victim" })
	follower := follow(t, victims)
	log := store.New(connect(t, w.url), projections.Inline(), follower.Moved) // nobody tells the other follower
	t.Cleanup(log.Close)
	handler := commands.New(log, w.clock.now)
	workspace := newID()
	run := w.queued(t, workspace)

	ended, n := 0, 0
	sum := bill(t, handler, workspace, run, 150, func() {
		if n++; n%15 == 0 {
			var killed int
			err := w.db.QueryRow(t.Context(), `
				select count(pg_terminate_backend(pid)) from pg_stat_activity
				where application_name = 'victim' and datname = current_database()`).Scan(&killed)
			require.NoError(t, err)
			ended += killed
		}
	})
	require.Positive(t, ended, "connections that were ended")
	w.caughtUp(t)
	got, _, err := projections.Runs{DB: w.db}.Of(t.Context(), workspace, run)
	require.NoError(t, err)
	require.Equal(t, sum, got.CostCents)
	requireRebuilt(t, w.db)
}

// A follower that starts finds by itself what there is to take in, and what
// nobody told it of.
func TestAFollowerLooksForItself(t *testing.T) {
	t.Parallel()
	w := newSilentWorld(t)
	w.queued(t, newID())
	require.Empty(t, dump(t, w.db, "runs"))

	w.follower = follow(t, w.db)
	w.caughtUp(t)
	require.Len(t, dump(t, w.db, "runs"), 1)
	w.queued(t, newID())
	w.caughtUp(t)
	require.Len(t, dump(t, w.db, "runs"), 2)
}

// A log with an event that this build does not know halts its view, loudly,
// and no other; when the event is known it goes on.
func TestAnEventThatCannotBeTakenInHaltsItsLogOnly(t *testing.T) {
	t.Parallel()
	w := newSilentWorld(t)
	bad, good := newID(), newID()
	w.queued(t, bad)
	w.queued(t, good)
	_, err := w.db.Exec(t.Context(), `update events set kind = 'run.teleported' where workspace_id = $1`, bad)
	require.NoError(t, err)

	said := make(lines, 100)
	f := projections.NewFollower(w.db, func(string) bool { return true }, slog.New(slog.NewTextHandler(said, nil)))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
	}()
	await(t, f, "runs", good, 1)
	said.await(t, "standing still", "run.teleported")
	require.Len(t, dump(t, w.db, "runs"), 1)
	require.Eventually(t, func() bool { return f.Stuck()["runs"] == 1 }, limit, time.Millisecond)
	require.Zero(t, f.Stuck()["audit"])
	require.Equal(t, []projections.Lag{{View: "runs", Taken: 1, Behind: 1, Logs: 1}}, lags(t, w.db, "runs"))

	_, err = w.db.Exec(t.Context(), `update events set kind = 'run.queued' where workspace_id = $1`, bad)
	require.NoError(t, err)
	await(t, f, "runs", bad, 1)
	require.Len(t, dump(t, w.db, "runs"), 2)
	require.Eventually(t, func() bool { return f.Stuck()["runs"] == 0 }, limit, time.Millisecond)
	require.Equal(t, []projections.Lag{{View: "nobody's", Behind: 2, Logs: 2}, {View: "runs", Taken: 2}}, lags(t, w.db, "runs", "nobody's"))
}

func lags(t *testing.T, db *pgxpool.Pool, views ...string) []projections.Lag {
	t.Helper()
	list, err := projections.Lags(t.Context(), db, views...)
	require.NoError(t, err)
	slices.SortFunc(list, func(a, b projections.Lag) int { return strings.Compare(a.View, b.View) })
	return list
}

func TestAnEmptyDatabaseHasNoLag(t *testing.T) {
	t.Parallel()
	require.Equal(t, []projections.Lag{{View: "runs"}}, lags(t, pgtest.New(t), "runs"))
}

// lines is what was logged, as far as there is l.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// await waits for a line that holds all words.
func (l lines) await(t *testing.T, words ...string) {
	t.Helper()
	late := time.After(limit)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return
			}
		case <-late:
			require.FailNow(t, "nobody said so", words)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.queued(t, workspace)
	elsewhere := projections.NewFollower(w.db, func(string) bool { return true }, slog.New(slog.DiscardHandler)) // of a process that follows nothing itself
	for _, view := range []string{"runs", "audit", ""} {
		for name, f := range map[string]*projections.Follower{"here": w.follower, "elsewhere": elsewhere} {
			t.Run(fmt.Sprintf("%q %s", view, name), func(t *testing.T) {
				await(t, f, view, workspace, 1)
				require.NoError(t, f.Await(t.Context(), view, newID(), 0), "the beginning of anything")

				next := make(chan error, 1)
				head := int64(0)
				require.NoError(t, w.db.QueryRow(t.Context(), `select head from logs where workspace_id = $1`, workspace).Scan(&head))
				go func() { next <- f.Await(t.Context(), view, workspace, head+1) }()
				w.queued(t, workspace)
				select {
				case err := <-next:
					require.NoError(t, err, "what is about to happen")
				case <-time.After(limit):
					require.FailNow(t, "it did not return")
				}
			})
		}
	}
}

func TestAwaitGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	workspace := newID()
	w.queued(t, workspace)
	w.caughtUp(t)
	for _, view := range []string{"runs", ""} {
		t.Run(fmt.Sprintf("%q after five seconds", view), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			require.ErrorIs(t, w.follower.Await(context.WithoutCancel(t.Context()), view, workspace, 2), projections.ErrNotCaughtUp)
			require.GreaterOrEqual(t, time.Since(begun), 5*time.Second)
			require.Less(t, time.Since(begun), limit)
		})
		t.Run(fmt.Sprintf("%q when its caller does", view), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			cancel()
			require.ErrorIs(t, w.follower.Await(ctx, view, workspace, 2), projections.ErrNotCaughtUp)
			require.Less(t, time.Since(begun), limit)
		})
	}
}
