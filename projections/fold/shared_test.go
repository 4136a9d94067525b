package fold_test

import (
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

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// passCounter counts a follower's page transactions: those shared by all views, and those of single
// views.
type passCounter struct {
	mu       sync.Mutex
	shared   int
	claims   int // shared passes that claimed their checkpoints
	separate map[string]int
}

func (p *passCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range b.Batch.QueuedQueries {
		switch {
		case strings.Contains(q.SQL, "update checkpoints c set seq = m.seq"):
			p.shared++
			p.claims++
		case !strings.Contains(q.SQL, "for update skip locked"):
		case len(q.Arguments) == 1:
			p.shared++
		default:
			p.separate[q.Arguments[1].(string)]++
		}
	}
	return ctx
}

func (*passCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*passCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (p *passCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*passCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// takeCounts returns the counts since the last call.
func (p *passCounter) takeCounts() (shared int, separate map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared, separate = p.shared, p.separate
	p.shared, p.claims, p.separate = 0, 0, map[string]int{}
	return shared, separate
}

// claimed returns how many of the passes claimed their page.
func (p *passCounter) claimed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims
}

// newCountedWorld returns a world whose follower's passes are counted.
func newCountedWorld(t *testing.T) (*world.World, *passCounter) {
	t.Helper()
	w, p := world.NewSilent(t), &passCounter{separate: map[string]int{}}
	db := world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = p })
	w.Follower = world.Follow(t, db)
	return w, p
}

// grow appends n events to runs of a log and notifies the follower, if there is one.
func grow(t *testing.T, w *world.World, workspace events.ID, n int) (head int64) {
	t.Helper()
	for n > 0 {
		list := make([]events.Event, min(n, 500))
		for i := range list {
			list[i] = events.RunCostRecorded{Cents: 1, Source: "compute"}
		}
		records := w.Record(t, world.System, workspace, w.QueueRun(t, workspace), list...)
		n, head = n-len(list), records[len(records)-1].Seq
	}
	if w.Follower != nil {
		w.Follower.Moved(workspace, head)
	}
	return head
}

// awaitViews waits until views have reached seq.
func awaitViews(t *testing.T, w *world.World, workspace events.ID, seq int64, views ...string) {
	t.Helper()
	for _, v := range views {
		world.Await(t, w.Follower, v, workspace, seq)
	}
}

func allFollowed() (list []string) {
	for _, v := range projections.Followed() {
		list = append(list, v.Name())
	}
	return list
}

// However many views there are, a page of events that is new to all is one transaction, and each
// view has its own checkpoint. Pages that are read ahead have the right events.
func TestLevelViewsShareAPass(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	p := &passCounter{separate: map[string]int{}}
	head := grow(t, w, workspace, 4321)
	w.Follower = world.Follow(t, world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = p }))
	w.CaughtUp(t)
	shared, separate := p.takeCounts()
	require.Equal(t, 5, shared, "pages of a thousand events")
	require.Empty(t, separate)
	for _, l := range lags(t, w.DB, allFollowed()...) {
		require.Equal(t, fold.Lag{View: l.View, Taken: head}, l)
	}
	var cents int
	require.NoError(t, w.DB.QueryRow(t.Context(), `select sum(cost_cents) from runs`).Scan(&cents))
	require.Equal(t, 4321, cents)
	world.RequireRebuilt(t, w.DB)
}

// What is read ahead after a page that is full may be nothing, if the log ends there. That says nothing
// about later events.
func TestLogThatEndsWithFullPageGoesOn(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	head := grow(t, w, workspace, 997) // in two runs
	require.EqualValues(t, 1000, head, "the size of a page")
	w.Follower = world.Follow(t, w.DB)
	awaitViews(t, w, workspace, head, allFollowed()...)
	head = w.Record(t, world.System, workspace, run, events.RunCostRecorded{Cents: 1, Source: "compute"})[0].Seq
	awaitViews(t, w, workspace, head, allFollowed()...)
}

// A pass that remembers the checkpoints claims them without reading. If another process has moved
// them since, or they were set back, it reads them, and no event is folded twice or left out.
func TestPassRereadsStaleCheckpoints(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	run := w.QueueRun(t, workspace)
	var followers []*fold.Follower
	var counts []*passCounter
	for range 2 {
		p := &passCounter{separate: map[string]int{}}
		followers = append(followers, world.Follow(t, world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = p })))
		counts = append(counts, p)
	}
	taken := 0
	bill := func(i int) { // the other follower is not notified, but polls once a second
		t.Helper()
		taken++
		head := w.Record(t, world.System, workspace, run, events.RunCostRecorded{Cents: 1, Source: "compute"})[0].Seq
		followers[i].Moved(workspace, head)
		w.Follower = followers[i]
		awaitViews(t, w, workspace, head, allFollowed()...)
	}
	require.Eventually(t, func() bool { bill(0); bill(0); return counts[0].claimed() > 0 }, world.Limit, time.Millisecond)
	for i := range 20 {
		bill(i % 2)
	}
	_, err := w.DB.Exec(t.Context(), `with a as (update checkpoints set seq = 0 where view = 'run_counts') delete from run_counts`)
	require.NoError(t, err)
	bill(1)
	_, err = w.DB.Exec(t.Context(), `with a as (delete from checkpoints where view = 'runs') delete from runs`)
	require.NoError(t, err)
	bill(0)
	require.Eventually(t, func() bool {
		counts[1].takeCounts()
		bill(1)
		bill(1)
		return counts[1].claimed() > 0
	}, world.Limit, time.Millisecond)
	var cents int
	require.NoError(t, w.DB.QueryRow(t.Context(), `select sum(cost_cents) from runs`).Scan(&cents))
	require.Equal(t, taken, cents)
	for _, l := range lags(t, w.DB, allFollowed()...) {
		require.Equal(t, fold.Lag{View: l.View, Taken: int64(taken) + 1}, l)
	}
	world.RequireRebuilt(t, w.DB)
}

// A view that is far behind, such as a new one, catches up alone while the others go on, and then
// shares the pass again. Views that lag by less than a page share it all the time.
func TestLaggingViewFollowsAlone(t *testing.T) {
	t.Parallel()
	w, p := newCountedWorld(t)
	workspace := world.NewID()
	awaitViews(t, w, workspace, grow(t, w, workspace, 2500), allFollowed()...)
	p.takeCounts()

	_, err := w.DB.Exec(t.Context(), `with a as (delete from checkpoints where view = 'run_counts') delete from run_counts`)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `update checkpoints set seq = seq - 400 where view = 'outcomes'`)
	require.NoError(t, err)
	awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
	_, separate := p.takeCounts()
	require.GreaterOrEqual(t, separate["run_counts"], 3, "pages")
	delete(separate, "run_counts")
	require.Empty(t, separate)

	require.Eventually(t, func() bool { // once its own follower is done with the log
		awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
		shared, separate := p.takeCounts()
		return shared > 0 && len(separate) == 0
	}, world.Limit, time.Millisecond)
	counts := world.Dump(t, w.DB, "run_counts")
	world.Rebuild(t, w.DB, world.View(t, "run_counts"))
	require.Equal(t, world.Dump(t, w.DB, "run_counts"), counts)
	world.RequireRebuilt(t, w.DB)
}

// A lock on a view, or on its checkpoint, delays that view alone.
func TestLockedViewDelaysNoOther(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"its table":      `lock table runs in share mode`,
		"a row":          `select from runs where workspace_id = $1 for update`,
		"its checkpoint": `select from checkpoints where workspace_id = $1 and view = 'runs' for update`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, p := newCountedWorld(t)
			workspace := world.NewID()
			run := w.QueueRun(t, workspace)
			awaitViews(t, w, workspace, grow(t, w, workspace, 3), allFollowed()...)

			held, err := w.DB.Begin(t.Context())
			require.NoError(t, err)
			defer held.Rollback(context.Background())
			args := []any{workspace}[:strings.Count(sql, "$1")]
			_, err = held.Exec(t.Context(), sql, args...)
			require.NoError(t, err)
			w.Record(t, world.System, workspace, run, events.RunCostRecorded{Cents: 1})
			head := grow(t, w, workspace, 3)
			awaitViews(t, w, workspace, head, "run_counts", "decisions", "outcomes", "audit")
			there, err := w.Follower.Reached(t.Context(), "runs", workspace, head)
			require.NoError(t, err)
			require.False(t, there)

			require.NoError(t, held.Rollback(t.Context()))
			awaitViews(t, w, workspace, head, "runs")
			require.Eventually(t, func() bool { // when the backoff of the log is over
				p.takeCounts()
				awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
				shared, separate := p.takeCounts()
				return shared > 0 && len(separate) == 0
			}, world.Limit, 10*time.Millisecond)
			world.RequireRebuilt(t, w.DB)
		})
	}
}

// A page that hangs ends with an error, and its log counts as stuck. When the lock is released, the
// views go on.
func TestHungPageEndsAndIsRetried(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"of a view":  `lock table run_counts in share mode`,
		"of any one": `lock table checkpoints in exclusive mode`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := world.NewSilent(t)
			workspace := world.NewID()
			w.QueueRun(t, workspace)
			w.Follower = fold.NewFollower(w.DB, projections.Followed(), func(string) bool { return true }, slog.New(slog.DiscardHandler))
			w.Follower.TimeOutPagesAfter(time.Second)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { w.Follower.Run(ctx) })
			t.Cleanup(func() { stop(); running.Wait() })
			awaitViews(t, w, workspace, grow(t, w, workspace, 3), allFollowed()...)

			held, err := w.DB.Begin(t.Context())
			require.NoError(t, err)
			defer held.Rollback(context.WithoutCancel(t.Context()))
			_, err = held.Exec(t.Context(), sql)
			require.NoError(t, err)
			head := grow(t, w, workspace, 3)
			require.Eventually(t, func() bool { return w.Follower.Stuck()["run_counts"] == 1 }, world.Limit, time.Millisecond)
			require.NoError(t, held.Rollback(t.Context()))
			awaitViews(t, w, workspace, head, allFollowed()...)
			world.RequireRebuilt(t, w.DB)
		})
	}
}

// Reading ahead ends after its timeout, for the next page waits for it.
func TestReadingAheadEnds(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	grow(t, w, workspace, 3)
	page, stop := context.WithCancel(t.Context())
	stop()
	from := store.Position{Workspace: workspace, Seq: 1}
	require.True(t, fold.ReadAhead(page, w.DB, projections.Followed(), from, world.Limit), "the page before has ended")

	held, err := w.DB.Begin(t.Context())
	require.NoError(t, err)
	defer held.Rollback(context.WithoutCancel(t.Context()))
	_, err = held.Exec(t.Context(), `lock table events in access exclusive mode`)
	require.NoError(t, err)
	require.False(t, fold.ReadAhead(t.Context(), w.DB, projections.Followed(), from, 100*time.Millisecond))
}

// An event that one view cannot fold does not delay the other views: it is parked, and then all
// share the pass again. Other logs are not affected.
func TestPoisonEventSeparatesTheViewsOfItsLog(t *testing.T) {
	t.Parallel()
	w, p := newCountedWorld(t)
	workspace, other := world.NewID(), world.NewID()
	awaitViews(t, w, workspace, grow(t, w, workspace, 20), allFollowed()...)
	w.Record(t, world.System, workspace, world.NewID(), events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1}) // of no run
	head := grow(t, w, workspace, 20)
	awaitViews(t, w, workspace, head, allFollowed()...)
	awaitViews(t, w, other, grow(t, w, other, 1), allFollowed()...)
	seq := head - 21
	list, err := fold.ListParked(t.Context(), w.DB)
	require.NoError(t, err)
	for _, parked := range list {
		require.Equal(t, []any{workspace, seq}, []any{parked.Workspace, parked.Seq}, parked.View)
		require.Contains(t, []string{"runs", "outcomes"}, parked.View)
	}
	require.Len(t, list, 2)
	require.Eventually(t, func() bool {
		p.takeCounts()
		awaitViews(t, w, workspace, grow(t, w, workspace, 1), allFollowed()...)
		shared, separate := p.takeCounts()
		return shared > 0 && len(separate) == 0
	}, world.Limit, 10*time.Millisecond)
	world.RequireRebuilt(t, w.DB)
}

// Views can be led by different processes and change their leader. A process shares the pass among
// the views that it leads.
func TestViewsHaveIndependentLeaders(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	var handedOver atomic.Bool
	var all []*fold.Follower
	var counts []*passCounter
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for i := range 2 {
		p := &passCounter{separate: map[string]int{}}
		db := world.Connect(t, w.URL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = p })
		f := fold.NewFollower(db, projections.Followed(), func(view string) bool {
			return (view == "runs") == ((i == 0) == handedOver.Load())
		}, slog.New(slog.DiscardHandler))
		running.Go(func() { f.Run(ctx) })
		all, counts = append(all, f), append(counts, p)
	}
	workspace := world.NewID()
	for range 2 {
		w.Follower = all[0]
		head := grow(t, w, workspace, 30)
		all[1].Moved(workspace, head)
		awaitViews(t, w, workspace, head, allFollowed()...)
		for _, p := range counts {
			shared, separate := p.takeCounts()
			require.Positive(t, shared)
			require.Empty(t, separate)
		}
		handedOver.Store(true)
	}
	world.RequireRebuilt(t, w.DB)
}
