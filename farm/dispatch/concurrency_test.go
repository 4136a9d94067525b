package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/test/world"
)

// submitTurn submits a job with a turn and a concurrency key, whose limit is 1 if it has one.
func (s *site) submitTurn(r *replica, turn int64, key string) events.ID {
	s.t.Helper()
	return s.submitFor(r, turn, key)
}

// submitFor is submitTurn of a job that requires labels.
func (s *site) submitFor(r *replica, turn int64, key string, labels ...string) events.ID {
	s.t.Helper()
	spec := events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Name: "test", Run: "make test"}},
		Sandbox: events.JobSandbox{Kind: "none", Network: "host"}, Priority: events.NormalPriority,
		Timeouts: events.JobTimeouts{QueueSeconds: 3600, RunSeconds: 600, CancelGraceSeconds: 10},
		Retry:    events.JobRetry{MaxAttempts: 1},
	}
	spec.Requires.Labels = labels
	if key != "" {
		spec.Concurrency = &events.JobConcurrency{Key: key, Limit: 1}
	}
	id := newID()
	_, err := r.SubmitJob(world.WithTurn(context.Background(), turn, nil), commands.SubmitJob{Meta: systemMeta(s.ws), Job: id, Spec: spec})
	require.NoError(s.t, err)
	return id
}

// copyJob inserts n more rows like that of a job, with turns from 2 on and the given concurrency keys,
// in which %d is the number of the row. The copies are in no log and cannot be leased, so a job that is
// to go first needs an earlier turn: at the same turn the ids decide, which are random.
func (s *site) copyJob(job events.ID, n int, state events.JobState, key string) {
	s.t.Helper()
	_, err := s.db.Exec(s.t.Context(), `
		insert into jobs (workspace_id, job_id, name, state, submitted_by, requirement, required, repo_name, priority, fair_key, turn,
			submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_name, excluded, concurrency_key, concurrency, slot,
			accepted, run_seconds, expires_at, attempts, artifacts)
		select workspace_id, gen_random_uuid(), name, $3, submitted_by, requirement, required, '', priority, fair_key, n + 1,
			submitted_at, submitted_at, submitted_at, epoch, attempt, max_attempts, '', '{}', replace($4, '%d', n::text), 1,
			case when $3 = 'queued' then 0 else 1 end, accepted, 60, expires_at, '[]', '{}'
		from jobs, generate_series(1, $5) n where workspace_id = $1 and job_id = $2`, s.ws, job, string(state), key, n)
	require.NoError(s.t, err)
	if state == events.JobStateQueued {
		_, err = s.db.Exec(s.t.Context(), `update job_counts set queued = queued + $2 where workspace_id = $1`, s.ws, n)
		require.NoError(s.t, err)
	}
}

// takeNext returns the job that the runner is assigned next, after it has ended.
func (s *site) takeNext(a *agent) events.ID {
	s.t.Helper()
	job, epoch, _ := a.assigned()
	a.send(wire.Accept{}, job, epoch, 0)
	a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
	a.send(finished(""), job, epoch, 2)
	return job
}

// Jobs behind more than setWindow jobs of a full key go out in the order of their turns, whatever
// their keys are.
func TestOrderBehindFullKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 2, 0))
	holder := s.submitTurn(r, 1, "deploy")
	s.copyJob(holder, 1000, events.JobStateQueued, "deploy")
	keys := []string{"", "a", "", "b", "a", "", "deploy", "b", "", "c"}
	var want []events.ID
	for i := range keys {
		i = (i*7 + 3) % len(keys) // not in the order of their turns
		job := s.submitTurn(r, int64(2000+i), keys[i])
		if keys[i] != "deploy" {
			want = append(want, job)
		}
	}
	turns := map[events.ID]int64{}
	rows, err := s.db.Query(t.Context(), `select job_id, turn from jobs where workspace_id = $1 and turn >= 2000`, s.ws)
	require.NoError(t, err)
	for rows.Next() {
		var job events.ID
		var turn int64
		require.NoError(t, rows.Scan(&job, &turn))
		turns[job] = turn
	}
	require.NoError(t, rows.Err())

	two := hello
	two.Capacity = 2
	a.send(two, events.ID{}, 0, 0)
	first, epoch, _ := a.assigned()
	require.Equal(t, holder, first)
	a.send(wire.Accept{}, holder, epoch, 0) // it runs until the end of the test
	last := int64(0)
	for range want {
		job := s.takeNext(a)
		require.Contains(t, want, job)
		require.Greater(t, turns[job], last)
		last = turns[job]
	}
	require.Equal(t, events.JobStateLeased, s.state(holder))
}

// Behind jobs of more full keys than a page has, a job is found nevertheless.
func TestJobBehindManyFullKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	template := s.submitTurn(r, 1, "")
	_, err := r.CancelJob(t.Context(), commands.CancelJob{Meta: systemMeta(s.ws), Job: template})
	require.NoError(t, err)
	s.copyJob(template, 600, events.JobStateRunning, "k%d")
	s.copyJob(template, 600, events.JobStateQueued, "k%d")
	var jobs []events.ID
	for i, key := range []string{"", "k", "k3000", "z"} {
		jobs = append(jobs, s.submitTurn(r, int64(1000+i), key))
	}
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	var got []events.ID
	for range jobs {
		got = append(got, s.takeNext(a))
	}
	require.ElementsMatch(t, jobs, got)
}

// Two groups of runners, each behind jobs of more full keys than are looked at in one round: both find
// the job that follows them.
func TestGroupsKeepTheirPlaceAmongFullKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 5 * time.Millisecond })
	const full = 2*16*256 + 100 // a group may come last in one round and first in the next
	template := s.submitTurn(r, 1, "")
	_, err := r.CancelJob(t.Context(), commands.CancelJob{Meta: systemMeta(s.ws), Job: template})
	require.NoError(t, err)
	s.copyJob(template, full, events.JobStateRunning, "k%d")
	labels := []string{"a", "b"}
	var agents []*agent
	for _, label := range labels {
		a := dial(t, r, s.ws, s.enrol(r, "builder "+label, 1, 0, label))
		a.greet()
		agents = append(agents, a)
		s.copyJob(s.submitFor(r, 1, "k1", label), full, events.JobStateQueued, "k%d")
	}
	_, err = s.db.Exec(t.Context(), `analyze jobs`)
	require.NoError(t, err)
	var want []events.ID
	for _, label := range labels {
		want = append(want, s.submitFor(r, full+1, "z"+label, label)) // a key of its own, so that neither waits for the other
	}
	for i, a := range agents {
		require.Equal(t, want[i], s.takeNext(a))
	}
}

// Jobs of one key with different limits: those whose limit is reached do not hide those that may
// start.
func TestLimitsOfOneKeyBehindWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	limited := func(j *events.JobSpec) { j.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: 2} }
	holder := s.submit(r, limited)
	s.copyJob(holder, 400, events.JobStateQueued, "deploy") // with a limit of 1
	_, err := s.db.Exec(t.Context(), `update jobs set turn = 0 where workspace_id = $1 and job_id = $2`, s.ws, holder)
	require.NoError(t, err)
	want := []events.ID{holder, s.submit(r, limited)}
	waits := s.submit(r, limited)
	want = append(want, s.submit(r))
	a := dial(t, r, s.ws, s.enrol(r, "builder", 4, 0))
	wide := hello
	wide.Capacity = 4
	a.send(wide, events.ID{}, 0, 0)
	var got []events.ID
	for range want {
		job, epoch, _ := a.assigned()
		a.send(wire.Accept{}, job, epoch, 0)
		got = append(got, job)
	}
	require.ElementsMatch(t, want, got)
	require.Equal(t, events.JobStateQueued, s.state(waits))
}
