package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
)

func TestJobsGoToRunnersThatMeetRequirements(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	plain, gpu := dial(t, r, s.ws, s.enrol(r, "plain", 10, 0)), dial(t, r, s.ws, s.enrol(r, "gpu", 10, 0, "gpu=a100"))
	gpu.greet()
	only := s.submit(r, func(j *events.JobSpec) { j.Requires.Labels = []string{"gpu=h100"} })
	late := s.submit(r, func(j *events.JobSpec) { j.Requires.AnyOf = [][]string{{"gpu=h100"}, {"gpu=a100"}} })
	got, _, _ := gpu.assigned()
	require.Equal(t, late, got)
	plain.greet()
	key := func(j *events.JobSpec) { j.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: 1} }
	first, second := s.submit(r, key), s.submit(r, key)
	s.waitForState(events.JobStateLeased, first)
	third := s.submit(r)
	s.waitForState(events.JobStateLeased, third)
	require.Equal(t, events.JobStateQueued, s.state(second))
	_, err := r.CancelJob(t.Context(), commands.CancelJob{Meta: systemMeta(s.ws), Job: first})
	require.NoError(t, err)
	for _, a := range []*agent{plain, gpu} {
		a.send(wire.Decline{Reason: "busy"}, first, 1, 0)
	}
	s.waitForState(events.JobStateLeased, second)
	require.Equal(t, events.JobStateQueued, s.state(only))
}

// Waiting jobs of a removed member are cancelled when their turn comes, and delay the jobs behind them no
// longer than that takes.
func TestJobsOfRemovedMemberAreCancelled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	owner, member := newID(), newID()
	meta := func(user events.ID) commands.Meta {
		return commands.Meta{Workspace: s.ws, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user, Name: "x"}}}
	}
	_, err := r.CreateWorkspace(t.Context(),
		commands.CreateWorkspace{Meta: meta(owner), Member: owner, Email: "ann@x.example", Name: "Acme", Slug: "acme"})
	require.NoError(t, err)
	_, err = r.AddMember(t.Context(), commands.AddMember{
		Meta: systemMeta(s.ws), Member: member, User: member, Email: "eve@x.example", Role: events.Maintainer,
	})
	require.NoError(t, err)
	var list []events.ID
	for range 70 { // more than are looked at together
		list = append(list, s.submitAs(r, meta(member)))
	}
	own := s.submitAs(r, meta(owner))
	_, err = r.RemoveMember(t.Context(), commands.RemoveMember{Meta: meta(owner), Member: member})
	require.NoError(t, err)

	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	got, _, _ := a.assigned()
	require.Equal(t, own, got)
	for _, job := range list {
		require.Equal(t, []string{"submitted", "cancelled"}, s.kinds(job))
	}
}

// A job whose concurrency limit is one does not start beside a job of the same key whose limit is
// two.
func TestConcurrencyKeyUsesSmallestLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 4, 0))
	limited := func(n int) func(*events.JobSpec) {
		return func(j *events.JobSpec) { j.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: n} }
	}
	var jobs []events.ID
	for _, limit := range []int{1, 2, 2, 1} {
		jobs = append(jobs, s.submit(r, limited(limit)))
	}
	wide := hello
	wide.Capacity = 4
	a.send(wide, events.ID{}, 0, 0)
	end := func(job events.ID) {
		a.send(wire.Accept{}, job, 1, 0)
		a.send(wire.Event{Kind: wire.EventStarted}, job, 1, 1)
		a.send(finished(""), job, 1, 2)
		s.waitForState(events.JobStateSucceeded, job)
	}
	for _, together := range [][]events.ID{jobs[:1], jobs[1:3], jobs[3:]} {
		for range together {
			got, _, _ := a.assigned()
			require.Contains(t, together, got)
		}
		last := s.submit(r) // leased after all other candidates
		got, _, _ := a.assigned()
		require.Equal(t, last, got)
		end(last)
		for _, job := range together {
			end(job)
		}
	}
}

// The job's requirement set comes after more than one page of others.
func TestLeasingPagesThroughRequirements(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	_, err := s.db.Exec(t.Context(), `
		insert into jobs (workspace_id, job_id, name, state, submitted_by, requirement, required, repo_name, priority, fair_key, turn,
			submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_name, excluded, concurrency_key, concurrency, slot,
			accepted, run_seconds, expires_at, attempts, artifacts)
		select $1, gen_random_uuid(), 'x', 'queued', '{}', ' ' || n, '{"labels":["gpu=none"]}', '', 'normal', '', 1,
			now(), now(), now(), 0, 0, 1, '', '{}', '', 0, 0, false, 60, now(), '[]', '{}' from generate_series(1, 600) n`, s.ws)
	require.NoError(t, err)
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	for range 3 {
		job := s.submit(r)
		got, epoch, _ := a.assigned()
		require.Equal(t, job, got)
		a.send(wire.Accept{}, job, epoch, 0)
		a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
		a.send(finished(""), job, epoch, 2)
		s.waitForState(events.JobStateSucceeded, job)
	}
}

// leaseQueries counts the statements that look for requirements and for jobs.
type leaseQueries struct{ sets, jobs atomic.Int64 }

func (a *leaseQueries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(q.SQL, "with recursive sets"):
		a.sets.Add(1)
	case strings.Contains(q.SQL, "as k (requirement)"):
		a.jobs.Add(1)
	}
	return ctx
}

func (a *leaseQueries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Runners that meet the same requirements share one query, however many are idle. Events that concern neither jobs
// nor runners cause none.
func TestIdleRunnersShareQueries(t *testing.T) {
	t.Parallel()
	s, count := newSite(t), &leaseQueries{}
	config, err := pgxpool.ParseConfig(s.url)
	require.NoError(t, err)
	config.ConnConfig.Tracer = count
	db, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	r := s.replica(func(c *dispatch.Config) { c.DB = db })
	for i := range 40 { // each with its name as a label of its own
		dial(t, r, s.ws, s.enrol(r, fmt.Sprintf("builder-%d", i), 2, 0)).greet()
	}
	s.waitForState(events.JobStateLeased, s.submit(r)) // they are loaded by then
	count.sets.Store(0)
	count.jobs.Store(0)
	for range 30 {
		s.waitForState(events.JobStateLeased, s.submit(r))
	}
	require.GreaterOrEqual(t, count.jobs.Load(), int64(5))
	require.LessOrEqual(t, count.jobs.Load(), count.sets.Load())

	count.sets.Store(0)
	const others = 60
	for range others {
		_, err := r.log.Append(t.Context(), &events.Commit{
			Workspace: s.ws, Envelope: systemMeta(s.ws).Envelope, At: s.clock.now(),
			Writes: []events.Write{{Stream: newID(), Events: []events.Event{events.RepoConnected{Name: "web"}}}},
		})
		require.NoError(t, err)
	}
	s.waitForState(events.JobStateLeased, s.submit(r))
	require.Less(t, count.sets.Load(), int64(others/4))
}
