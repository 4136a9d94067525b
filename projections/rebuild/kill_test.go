//go:build !race

package rebuild_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/pgtest"
	"svc/test/world"
)

// phases are the phases of a rebuild, in order.
var phases = []string{"fold", "index", "catch up", "compare", "swap", "swap again"}

// A rebuild is killed before and after each of its commits while writers append. What it leaves is
// the fold of each log up to its stored position. A rebuild that resumes from there, and may be
// killed in turn, produces the rows that a rebuild from nothing does.
func TestRebuildKilledAnywhereCountsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"run_counts"}, {"members", "audit"}} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			t.Parallel()
			w := world.New(t)
			p, err := w.NewPlayer(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, p.Play(t.Context(), 60))
			g := &growingLogs{World: w, logs: []events.ID{p.Workspace, world.NewID(), world.NewID()}, repo: world.NewID()}
			for range 12 {
				g.grow(t)
			}
			var views []fold.View
			for _, name := range names {
				views = append(views, world.View(t, name))
			}
			scratch := pgtest.New(t)
			for _, phase := range phases {
				kills := g.killEverywhere(t, views, scratch, phase)
				require.GreaterOrEqual(t, kills, 2, phase)
				w.CaughtUp(t)
				live := world.Dumps(t, w.DB)
				requireNothingLeft(t, w.DB)
				for _, v := range views {
					world.Rebuild(t, w.DB, v)
					require.Equal(t, world.Dump(t, w.DB, v.Name()), live[v.Name()], phase)
				}
			}
		})
	}
}

// killEverywhere kills rebuilds at the first, second … commit of a phase, until one completes.
func (g *growingLogs) killEverywhere(t *testing.T, views []fold.View, scratch *pgxpool.Pool, phase string) (kills int) {
	for resumed, last := int64(0), views[len(views)-1].Name(); ; kills++ {
		k := &killer{t: t, db: g.DB, live: last, at: phase, nth: kills + 1, now: phases[0], before: func() { g.grow(t) }}
		done, err := rebuild.ViewsIn(t.Context(), k.connect(t, g.URL), views, 2, 25, rebuild.Options{Resume: true})
		k.release()
		if !k.killed {
			require.NoError(t, err)
			require.Positive(t, resumed)
			return kills
		}
		for _, r := range done {
			resumed += r.Resumed
		}
		k.awaitGone()
		for _, v := range views {
			requireFoldOfItsPositions(t, g.DB, scratch, v)
		}
	}
}

// A rebuild that has lost its advisory lock goes on until another rebuild moves a position. Then it
// fails without harm to the other.
func TestOvertakenRebuildFails(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for range 4 {
		w.QueueRun(t, world.NewID())
	}
	w.CaughtUp(t)
	v, want := world.View(t, "run_counts"), world.Dump(t, w.DB, "run_counts")
	lost, proceed, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := sync.OnceFunc(func() {
			loseLock(t, w)
			close(lost)
			<-proceed
		})
		over <- world.Err(rebuild.RebuildIn(t.Context(), world.Connect(t, w.URL), v, 1, 100, func(int64, int64) { first() }))
	}()
	<-lost
	overtake := sync.OnceFunc(func() {
		close(proceed)
		require.ErrorContains(t, <-over, "another rebuild of this view is under way")
	})
	r, err := rebuild.ResumeRebuildIn(t.Context(), w.DB, v, 1, 100, func(int64, int64) { overtake() })
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Resumed)
	require.Empty(t, r.Differing)
	require.Equal(t, want, world.Dump(t, w.DB, "run_counts"))

	before := describeTable(t, w.DB, "run_counts")
	err = world.Err(world.RebuildView(t.Context(), world.Connect(t, w.URL), v, func(int64, int64) { loseLock(t, w) }))
	require.ErrorContains(t, err, "another rebuild of this view is under way", "nobody can know whether there is one")
	require.Equal(t, before, describeTable(t, w.DB, "run_counts"))
	world.Rebuild(t, w.DB, v)
	require.Equal(t, want, world.Dump(t, w.DB, "run_counts"))
}

// loseLock terminates the connections that hold advisory locks.
func loseLock(t *testing.T, w *world.World) {
	_, err := w.DB.Exec(t.Context(), `
		select pg_terminate_backend(pid, 60000) from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
	assert.NoError(t, err)
}

// growingLogs has logs that grow by events that the additive views count.
type growingLogs struct {
	*world.World
	logs []events.ID
	repo events.ID
	n    int
}

// grow queues a run in one of the logs; every second run is cancelled.
func (g *growingLogs) grow(t *testing.T) {
	g.n++
	o, run := world.Meta(g.logs[g.n%len(g.logs)], world.System), world.NewID()
	_, err := g.Commands.QueueRun(t.Context(), commands.QueueRun{
		Meta: o, Run: run, Repo: events.Repo{ID: g.repo, Name: "acme/web"}, IssueNumber: g.n, IssueTitle: "Count",
	})
	require.NoError(t, err)
	facts := []events.Event{world.Cost(7)}
	if g.n%2 == 0 {
		facts = append(facts, events.RunCancelled{Repo: g.repo})
	}
	_, err = g.Commands.RecordRun(t.Context(), commands.RecordRun{Meta: o, Run: run, Facts: facts})
	require.NoError(t, err)
}

// requireFoldOfItsPositions requires that the table of a killed rebuild is the fold of each log up
// to its stored position.
func requireFoldOfItsPositions(t *testing.T, db, scratch *pgxpool.Pool, v fold.View) {
	t.Helper()
	next := v.Name() + "__next"
	var left bool
	require.NoError(t, db.QueryRow(t.Context(), `select to_regclass($1) is not null`, next).Scan(&left))
	if !left {
		return
	}
	_, err := scratch.Exec(t.Context(), `truncate logs, events, checkpoints, parked`)
	require.NoError(t, err)
	for table, sql := range map[string]string{
		"logs":   `select workspace_id, seq as head, now() as last_at from rebuilds where view = $1`,
		"events": `select e.* from events e join rebuilds r on r.workspace_id = e.workspace_id and r.view = $1 and e.seq <= r.seq`,
	} {
		rows, err := db.Query(t.Context(), sql, v.Name())
		require.NoError(t, err)
		var columns []string
		for _, f := range rows.FieldDescriptions() {
			columns = append(columns, f.Name)
		}
		list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		require.NoError(t, err)
		_, err = scratch.CopyFrom(t.Context(), pgx.Identifier{table}, columns, pgx.CopyFromRows(list))
		require.NoError(t, err)
	}
	world.Rebuild(t, scratch, v)
	require.Equal(t, world.Dump(t, scratch, v.Name()), world.Dump(t, db, next))
}

// A killer terminates all connections of a rebuild at once, as the end of its process would, at the
// nth commit of a phase. The first swap of each rebuild finds the view in use.
type killer struct {
	t      *testing.T
	db     *pgxpool.Pool // a pool that is not killed
	live   string
	at     string
	nth    int
	before func() // called before each commit

	mu      sync.Mutex
	now     string // current phase
	count   int
	killed  bool
	reading pgx.Tx // transaction that reads the view
}

const victim = "victim"

func (k *killer) connect(t *testing.T, url string) *pgxpool.Pool {
	return world.Connect(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = victim
		c.ConnConfig.Tracer = k
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.killed {
				return errors.New("the process is gone")
			}
			return nil
		}
	})
}

func (k *killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.HasPrefix(q.SQL, "CREATE "): // as pg_get_indexdef writes it
		k.enterPhase("index")
	case strings.HasPrefix(q.SQL, "analyze "):
		k.enterPhase("catch up")
	case strings.Contains(q.SQL, "full join next"):
		k.enterPhase("compare")
	}
	for _, prefix := range []string{"commit", "CREATE ", "create ", "alter ", "analyze "} {
		if strings.HasPrefix(q.SQL, prefix) {
			k.append()
			k.maybeKill()
		}
	}
	return context.WithValue(ctx, victimSQL{}, q.SQL)
}

type victimSQL struct{}

func (k *killer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	if sql, _ := ctx.Value(victimSQL{}).(string); sql == "commit" && q.Err == nil {
		k.maybeKill()
	}
}

func (k *killer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		if strings.HasPrefix(q.SQL, "lock table "+k.live+" ") {
			k.swap()
		}
	}
	return ctx
}

func (k *killer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (k *killer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func (k *killer) enterPhase(phase string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = phase
}

// append appends as a writer does meanwhile. It is called before each commit and not after it as well, because the
// log would then grow by a sixth in each rebuild.
func (k *killer) append() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.killed {
		k.before()
	}
}

func (k *killer) maybeKill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed || k.now != k.at {
		return
	}
	if k.count++; k.count == k.nth {
		k.killed = true
		k.terminate()
	}
}

// swap opens a transaction that reads the view before the first swap, and ends it before the
// second.
func (k *killer) swap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed {
		return
	}
	if k.now == "swap" {
		k.release()
		k.now = "swap again"
		return
	}
	k.now = "swap"
	var err error
	k.reading, err = k.db.Begin(k.t.Context())
	require.NoError(k.t, err)
	_, err = k.reading.Exec(k.t.Context(), `select from `+k.live+` limit 1`)
	require.NoError(k.t, err)
}

func (k *killer) release() {
	if k.reading != nil {
		require.NoError(k.t, k.reading.Rollback(context.Background()))
		k.reading = nil
	}
}

func (k *killer) terminate() {
	_, err := k.db.Exec(k.t.Context(), `
		select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = $1 and datname = current_database()`, victim)
	require.NoError(k.t, err)
}

// awaitGone waits until the server has none of the rebuild's connections.
func (k *killer) awaitGone() {
	require.Eventually(k.t, func() bool {
		k.terminate()
		var there int
		err := k.db.QueryRow(k.t.Context(), `
			select count(*) from pg_stat_activity where application_name = $1 and datname = current_database()`, victim).Scan(&there)
		return err == nil && there == 0
	}, world.Limit, time.Millisecond)
}
