package main

import (
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
)

// TestKilledRebuildCountsNothingTwice kills the real program in each phase while writers
// append. The next one resumes, and produces what a rebuild from nothing does.
func TestKilledRebuildCountsNothingTwice(t *testing.T) {
	t.Parallel()
	path := build(t)
	for _, c := range []struct {
		at, view string
		bring    func(k *heldRebuild, start func())
	}{
		{"fold", "outcomes", (*heldRebuild).toFold},
		{"index", "run_counts", (*heldRebuild).toIndex},
		{"catch up", "run_counts", (*heldRebuild).toCatchUp},
		{"compare", "run_counts", (*heldRebuild).toCompare},
		{"swap again", "outcomes", (*heldRebuild).toSwapAgain},
	} {
		t.Run(c.at, func(t *testing.T) {
			d := newDatabase(t)
			require.Zero(t, runHere(t, d.environ, "migrate").status)
			db, err := pgxpool.New(t.Context(), d.cfg.ConnString())
			require.NoError(t, err)
			t.Cleanup(db.Close)
			k := newHeldRebuild(t, db, c.view)
			write := k.writers()
			c.bring(k, func() { k.cmd = start(t, path, d.environ, "rebuild", c.view) })
			require.NoError(t, k.cmd.Process.Kill())
			require.Error(t, k.cmd.Wait())
			k.releaseAll()
			require.Eventually(t, func() bool {
				return k.count(`select count(*) from pg_stat_activity where application_name = 'svc-db' and datname = current_database()`) == 0
			},
				limit, time.Millisecond, "the server is still at what it asked for")

			r := finish(t, start(t, path, d.environ, "rebuild", "-resume", c.view))
			require.Zero(t, r.status, r.stderr)
			require.Contains(t, r.stdout, c.view+": resumed after ")
			write()
			catchUp(t, db, c.view)
			resumed := k.rows()
			r = finish(t, start(t, path, d.environ, "rebuild", c.view))
			require.Zero(t, r.status, r.stderr)
			require.NotContains(t, r.stdout, "resumed after")
			require.NotContains(t, r.stdout, "its rows differed from the log")
			require.Equal(t, k.rows(), resumed)
		})
	}
}

// A heldRebuild holds up a rebuild by locks at the point where it is to be killed.
type heldRebuild struct {
	t    *testing.T
	db   *pgxpool.Pool
	view string
	cmd  *exec.Cmd
	held map[string]pgx.Tx // transactions that hold it up

	low, small, large events.ID // logs, in the order of their ids
}

func newHeldRebuild(t *testing.T, db *pgxpool.Pool, view string) *heldRebuild {
	k := &heldRebuild{t: t, db: db, view: view, held: map[string]pgx.Tx{}}
	t.Cleanup(k.releaseAll)
	for i, id := range []*events.ID{&k.low, &k.small, &k.large} {
		*id = events.NewID(time.Now())
		id[0] = byte(i)
	}
	k.fill(k.low, 10)
	k.fill(k.small, 10)
	k.fill(k.large, 15_000) // for several transactions
	return k
}

// fill appends runs of three events each to a log; every second run has ended.
func (k *heldRebuild) fill(workspace events.ID, runs int) {
	k.t.Helper()
	_, err := k.db.Exec(k.t.Context(), `
		with log as (
			insert into logs as l (workspace_id, head, last_at) values ($1, $2::int * 3, now())
			on conflict (workspace_id) do update set head = l.head + excluded.head
			returning workspace_id, head - $2::int * 3 as before
		)
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select workspace_id, before + r * 3 + e.version, gen_random_uuid(), md5(workspace_id::text || before + r * 3)::uuid,
			e.version, e.kind, 1, now(),
			'{"actor":{"type":"system","name":"system"},"origin":"system"}', e.data::json
		from log cross join generate_series(0, $2::int - 1) r cross join lateral (values
			(1, 'run.queued', '{"repo":{"id":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","name":"acme/web"},"issueNumber":7,"issueTitle":"Count"}'),
			(2, 'run.cost_recorded', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":12,"source":"model","quantity":1}'),
			(3, case when r % 2 = 0 then 'run.cancelled' else 'run.cost_recorded' end,
				case when r % 2 = 0 then '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","reason":"No longer needed."}'
				else '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":7,"source":"model","quantity":1}' end)
		) e (version, kind, data) order by 2`, workspace, runs)
	require.NoError(k.t, err)
}

// writers append to other logs until they are stopped.
func (k *heldRebuild) writers() (end func()) {
	log := store.New(k.db, nil, func(events.ID, int64) {})
	ctx, stop := context.WithCancel(k.t.Context())
	logs := []events.ID{events.NewID(time.Now()), events.NewID(time.Now()), events.NewID(time.Now())}
	var writing sync.WaitGroup
	writing.Go(func() {
		pace := time.NewTicker(3 * time.Millisecond)
		defer pace.Stop()
		for n := 1; ctx.Err() == nil; n++ {
			workspace, run := logs[n%3], events.NewID(time.Now())
			repo := events.Repo{ID: workspace, Name: "acme/api"}
			_, err := log.Append(ctx, &events.Commit{Workspace: workspace, At: time.Now(),
				Writes: []events.Write{{Stream: run, Events: []events.Event{
					events.RunQueued{Repo: repo, IssueNumber: n}, events.RunCostRecorded{Repo: repo.ID, Cents: 3}, events.RunCancelled{Repo: repo.ID},
				}[:1+n%3]}}})
			if err != nil && ctx.Err() == nil {
				k.t.Error(err)
				return
			}
			<-pace.C
		}
	})
	return sync.OnceFunc(func() { stop(); writing.Wait(); log.Close() })
}

// hold executes a statement in another transaction and keeps its locks.
func (k *heldRebuild) hold(name, sql string, args ...any) {
	k.t.Helper()
	tx, err := k.db.Begin(k.t.Context())
	require.NoError(k.t, err)
	_, err = tx.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
	k.held[name] = tx
}

func (k *heldRebuild) release(name string) {
	require.NoError(k.t, k.held[name].Rollback(context.Background()))
	delete(k.held, name)
}

func (k *heldRebuild) releaseAll() {
	for name := range k.held {
		k.release(name)
	}
}

func (k *heldRebuild) count(sql string, args ...any) (n int) {
	require.NoError(k.t, k.db.QueryRow(k.t.Context(), sql, args...).Scan(&n))
	return n
}

// position returns the rebuild's position in a log.
func (k *heldRebuild) position(workspace events.ID) int {
	return k.count(`select coalesce((select seq from rebuilds where workspace_id = $1), 0)`, workspace)
}

// rows returns the rows of the view as text.
func (k *heldRebuild) rows() []string {
	rows, _ := k.db.Query(k.t.Context(), `select t::text from `+k.view+` t order by 1`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(k.t, err)
	return list
}

func (k *heldRebuild) next() string { return k.view + "__next" }

// awaitLock waits until the rebuild waits for a lock with a statement of that form.
func (k *heldRebuild) awaitLock(like string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		return k.count(`
			select count(*) from pg_stat_activity
			where application_name = 'svc-db' and datname = current_database() and wait_event_type = 'Lock' and query ilike $1`, like) > 0
	}, limit, time.Millisecond, like)
}

// toFold: a part of the large log is folded, and the next one is about to be committed.
func (k *heldRebuild) toFold(start func()) {
	start()
	require.Eventually(k.t, func() bool { return k.position(k.large) > 0 }, limit, time.Millisecond)
	k.hold("positions", `lock table rebuilds in share mode`)
	k.awaitLock(`update rebuilds%`)
	require.Less(k.t, k.position(k.large), 45_000)
}

// toIndex: the beginnings of all logs are folded.
func (k *heldRebuild) toIndex(start func()) {
	k.hold("position", `insert into rebuilds (workspace_id, view, seq, form) values ($1, $2, 1, 1)`, k.low, k.view)
	start()
	k.awaitLock(`%insert into rebuilds%`)
	k.hold("next", `lock table `+k.next()+` in row exclusive mode`)
	k.release("position")
	k.awaitLock(`create %index%`)
}

// toCatchUp: some of the newly appended events are folded.
func (k *heldRebuild) toCatchUp(start func()) {
	k.toIndex(start)
	k.hold("position", `insert into rebuilds (workspace_id, view, seq, form) values ($1, $2, 1, 1)`, k.large, k.view)
	k.release("next")
	k.awaitLock(`%insert into rebuilds%`)
	k.fill(k.low, 600)
	k.fill(k.small, 10)
	k.hold("row", `select from `+k.next()+` where workspace_id = $1 for update`, k.small)
	k.release("position")
	k.awaitLock(`insert into ` + k.next() + `%`)
	require.Equal(k.t, 610*3, k.position(k.low))
}

// toCompare: the new rows are about to be compared with the view.
func (k *heldRebuild) toCompare(start func()) {
	k.toCatchUp(start)
	k.hold("view", `lock table `+k.view+` in access exclusive mode`)
	k.release("row")
	k.awaitLock(`%full join next%`)
}

// toSwapAgain: the view was in use, and meanwhile more events were folded.
func (k *heldRebuild) toSwapAgain(start func()) {
	k.hold("view", `lock table `+k.view+` in access share mode`)
	start()
	k.awaitLock(`lock table ` + k.view + `%`)
	k.fill(k.low, 20)
	require.Eventually(k.t, func() bool { return k.position(k.low) == 30*3 }, limit, time.Millisecond)
}
