package fold_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/runviews"
	"svc/test/pgtest"
	"svc/test/world"
)

// Three followers run in three processes, and each is told of every commit. An event that is folded
// twice, or not at all, shows in the sum of the costs.
func TestSeveralFollowersFoldEachEventOnce(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	others := []*fold.Follower{world.Follow(t, world.Connect(t, w.URL)), world.Follow(t, world.Connect(t, w.URL))}
	log := store.New(world.Connect(t, w.URL), projections.Inline(), func(workspace events.ID, head int64) {
		w.Follower.Moved(workspace, head)
		for _, f := range others {
			f.Moved(workspace, head)
		}
	})
	t.Cleanup(log.Close)
	handler := commands.New(log, w.Clock.Now)

	const bills = 40
	type account struct{ workspace, run events.ID }
	var accounts []account
	for range 2 {
		workspace := world.NewID()
		for range 4 {
			accounts = append(accounts, account{workspace, w.QueueRun(t, workspace)})
		}
	}
	sums := make([]int64, len(accounts))
	var all sync.WaitGroup
	for i, a := range accounts {
		all.Go(func() { sums[i] = world.RecordRandomCosts(t, handler, a.workspace, a.run, bills, func() {}) })
	}
	all.Wait()
	w.CaughtUp(t)
	for i, a := range accounts {
		run, ok, err := runviews.Runs{DB: w.DB}.Get(t.Context(), a.workspace, a.run)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, sums[i], run.CostCents)
		records, err := w.Log.Load(t.Context(), a.workspace, a.run, 0)
		require.NoError(t, err)
		require.Len(t, records, 1+bills)
		require.Equal(t, records[bills].At, run.UpdatedAt.UTC(), "the last one was the last")
	}
	world.RequireRebuilt(t, w.DB)
}

// The followers' connections are terminated again and again.
func TestFollowerSurvivesLostConnections(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	victims := world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "victim" })
	require.NoError(t, victims.Ping(t.Context()), "from the start there is a connection to end, however late the follower runs")
	follower := world.Follow(t, victims)
	log := store.New(world.Connect(t, w.URL), projections.Inline(), follower.Moved) // the other follower is not notified
	t.Cleanup(log.Close)
	handler := commands.New(log, w.Clock.Now)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)

	ended, n := 0, 0
	sum := world.RecordRandomCosts(t, handler, workspace, run, 150, func() {
		if n++; n%15 == 0 {
			var killed int
			err := w.DB.QueryRow(t.Context(), `
				select count(pg_terminate_backend(pid)) from pg_stat_activity
				where application_name = 'victim' and datname = current_database()`).Scan(&killed)
			require.NoError(t, err)
			ended += killed
		}
	})
	require.Positive(t, ended, "connections that were ended")
	w.CaughtUp(t)
	got, _, err := runviews.Runs{DB: w.DB}.Get(t.Context(), workspace, run)
	require.NoError(t, err)
	require.Equal(t, sum, got.CostCents)
	world.RequireRebuilt(t, w.DB)
}

// A follower finds by itself what there is to process when it starts, and logs that it was not
// notified of.
func TestFollowerFindsLogsWithoutNotification(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	w.QueueRun(t, world.NewID())
	require.Empty(t, world.Dump(t, w.DB, "runs"))

	w.Follower = world.Follow(t, w.DB)
	w.CaughtUp(t)
	require.Len(t, world.Dump(t, w.DB, "runs"), 1)
	w.QueueRun(t, world.NewID())
	w.CaughtUp(t)
	require.Len(t, world.Dump(t, w.DB, "runs"), 2)
}

// An event of an unknown kind stops the views in that log, with an error in the log output, and no
// other log. When the kind is known the views go on.
func TestUnknownKindStopsItsLogOnly(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	bad, good := world.NewID(), world.NewID()
	w.QueueRun(t, bad)
	w.QueueRun(t, good)
	_, err := w.DB.Exec(t.Context(), `update events set kind = 'run.teleported' where workspace_id = $1`, bad)
	require.NoError(t, err)

	said := make(logLines, 100)
	f := fold.NewFollower(w.DB, projections.Followed(), func(string) bool { return true }, slog.New(slog.NewTextHandler(said, nil)))
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
	world.Await(t, f, "runs", good, 1)
	said.await(t, "following failed", "run.teleported")
	require.Len(t, world.Dump(t, w.DB, "runs"), 1)
	for _, v := range projections.Followed() {
		require.Eventually(t, func() bool { return f.Stuck()[v.Name()] == 1 }, world.Limit, time.Millisecond, v.Name())
	}
	require.Equal(t, []fold.Lag{{View: "runs", Taken: 1, Behind: 1, Logs: 1}}, lags(t, w.DB, "runs"))

	_, err = w.DB.Exec(t.Context(), `update events set kind = 'run.queued' where workspace_id = $1`, bad)
	require.NoError(t, err)
	world.Await(t, f, "runs", bad, 1)
	require.Len(t, world.Dump(t, w.DB, "runs"), 2)
	require.Eventually(t, func() bool { return f.Stuck()["runs"] == 0 }, world.Limit, time.Millisecond)
	require.Equal(t, []fold.Lag{{View: "nobody's", Behind: 2, Logs: 2}, {View: "runs", Taken: 2}}, lags(t, w.DB, "runs", "nobody's"))
}

func lags(t *testing.T, db *pgxpool.Pool, views ...string) []fold.Lag {
	t.Helper()
	list, err := fold.Lags(t.Context(), db, views...)
	require.NoError(t, err)
	slices.SortFunc(list, func(a, b fold.Lag) int { return strings.Compare(a.View, b.View) })
	return list
}

func TestEmptyDatabaseHasNoLag(t *testing.T) {
	t.Parallel()
	require.Equal(t, []fold.Lag{{View: "runs"}}, lags(t, pgtest.New(t), "runs"))
}

// A follower reports missing events at the end of a log, instead of waiting for ever.
func TestFollowerReportsMissingTail(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	world.RecordRandomCosts(t, w.Commands, workspace, w.QueueRun(t, workspace), 4, func() {})
	_, err := w.DB.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 5`, workspace)
	require.NoError(t, err)
	said := make(logLines, 100)
	f := fold.NewFollower(w.DB, projections.Followed(), func(view string) bool { return view == "runs" },
		slog.New(slog.NewTextHandler(said, nil)))
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
	said.await(t, "following failed", workspace.String(), "event 5 is missing")
	world.Await(t, f, "runs", workspace, 4)
}

// logLines collects log lines; it drops lines when it is full.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// await waits for a line that contains all words.
func (l logLines) await(t *testing.T, words ...string) {
	t.Helper()
	late := time.After(world.Limit)
	for {
		select {
		case line := <-l:
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return
			}
		case <-late:
			require.FailNow(t, "no such line was logged", words)
		}
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.QueueRun(t, workspace)
	// of a process that does not run it
	elsewhere := fold.NewFollower(w.DB, projections.Followed(), func(string) bool { return true }, slog.New(slog.DiscardHandler))
	for _, view := range []string{"runs", "audit", ""} {
		for name, f := range map[string]*fold.Follower{"here": w.Follower, "elsewhere": elsewhere} {
			t.Run(fmt.Sprintf("%q %s", view, name), func(t *testing.T) {
				world.Await(t, f, view, workspace, 1)
				require.NoError(t, f.Await(t.Context(), view, world.NewID(), 0), "the beginning of anything")

				next := make(chan error, 1)
				head := int64(0)
				require.NoError(t, w.DB.QueryRow(t.Context(), `select head from logs where workspace_id = $1`, workspace).Scan(&head))
				go func() { next <- f.Await(t.Context(), view, workspace, head+1) }()
				w.QueueRun(t, workspace)
				select {
				case err := <-next:
					require.NoError(t, err, "what is about to happen")
				case <-time.After(world.Limit):
					require.FailNow(t, "it did not return")
				}
			})
		}
	}
}

func TestAwaitGivesUp(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	w.QueueRun(t, workspace)
	w.CaughtUp(t)
	for _, view := range []string{"runs", ""} {
		t.Run(fmt.Sprintf("%q after five seconds", view), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			require.ErrorIs(t, w.Follower.Await(context.WithoutCancel(t.Context()), view, workspace, 2), fold.ErrNotCaughtUp)
			require.GreaterOrEqual(t, time.Since(begun), 5*time.Second)
			require.Less(t, time.Since(begun), world.Limit)
		})
		t.Run(fmt.Sprintf("%q when its caller does", view), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			cancel()
			require.ErrorIs(t, w.Follower.Await(ctx, view, workspace, 2), fold.ErrNotCaughtUp)
			require.Less(t, time.Since(begun), world.Limit)
		})
	}
}
