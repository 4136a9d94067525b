package plans_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/projections/farmviews"
)

// jobRows are 10,000 jobs of acme that wait, half of which no runner meets and half of which wait
// for others of their concurrency key, but one that backs off, 2,000 that runners have, and 100,000
// that have ended, among those of others.
const jobRows = `
	insert into jobs (workspace_id, job_id, name, state, submitted_by, requirement, required, repo_id, repo_name, priority, fair_key, turn,
		submitted_at, queued_at, not_before, epoch, attempt, max_attempts, runner_id, runner_name, excluded, concurrency_key, concurrency, slot,
		accepted, finished_at, due_at, run_seconds, expires_at, attempts, artifacts)
	select w, id('j', n), 'unit tests ' || n, state, ('{"id":"' || id('u', 7) || '"}')::json, 'set-' || n % 20,
		case when n % 2 = 0 then '{}' else '{"labels":["gpu=h100"]}' end::json, case
			when n % 50 = 0 then id('p', 1) else $repo end, 'acme/web', 'normal',
		'repo/' || n % 10, n, at, at,
		case when n = 10000 then '2036-01-01'::timestamptz else at end, case when state = 'queued' then 0 else 1 end, 1, 3, case
			when state <> 'queued' then id('y', n % 1000) end, '', '{}',
		case when n % 100 = 2 or n % 2 = 0 and n < 10000 then 'deploy-' || n / 100 % 20 else '' end, 1, case when state = 'running'
			and n % 100 = 2 then 1 else 0 end,
		state <> 'queued', case when state = 'succeeded' then at end, case when state <> 'succeeded' then '2036-01-01'::timestamptz end, 3600,
		at + interval '1 day', '[]', '{}'
	from (select $acme as w, n, '2026-01-01'::timestamptz + n * interval '1 second' as at,
		case when n <= 10000 then 'queued' when n <= 12000 then 'running' else 'succeeded' end as state from generate_series(1, 112000) n
		union all select id('w', n), n, '2026-01-01', 'queued' from generate_series(1, $others) n) t;
	insert into job_counts (workspace_id, queued, held, ended) select workspace_id, count(*) filter (where state = 'queued'),
		count(*) filter (where state = 'running'), count(*) filter (where state = 'succeeded') from jobs group by 1;
	insert into job_artifacts (workspace_id, artifact_id, job_id, epoch, name, path, size, sha256, mode, stored_at)
	select $acme, id('o', n), id('j', 12041 + n % 4000), 1, 'dist', 'dist/' || n, 1, '', 420, '2026-01-01' from generate_series(1, 20000) n;
	insert into job_specs (workspace_id, job_id, spec) select workspace_id, job_id, '{}' from jobs`

// commandJobs submits a job and takes it through what can become of one.
func (p *process) commandJobs(t *testing.T, owner commands.Meta) {
	t.Helper()
	ctx, h, ok := t.Context(), p.commands, done[commands.Result](t)
	spec, err := farm.CheckJob(events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Run: "true"}}, Concurrency: &events.JobConcurrency{Key: newID().String()},
	})
	require.NoError(t, err)
	h.Views.Turn = func(workspace, by events.ID, spec events.JobSpec) func(context.Context) (string, int64, error) {
		return func(ctx context.Context) (string, int64, error) {
			const fairKey = "account/1/normal"
			q, err := farmviews.Jobs{DB: p.asks}.Queue(ctx, workspace, by, fairKey, spec.Required().Key())
			return fairKey, q.LastTurn + 1, err
		}
	}
	submit := commands.SubmitJob{Meta: owner, Job: newID(), Spec: spec}
	ok(h.SubmitJob(ctx, submit))
	ok(h.CancelJob(ctx, commands.CancelJob{Meta: owner, Job: submit.Job}))
	retry := commands.RetryJob{Meta: owner, Job: submit.Job, New: newID()}
	ok(h.RetryJob(ctx, retry))
	ok(h.CancelJob(ctx, commands.CancelJob{Meta: owner, Job: retry.New}))
	ok(h.CancelJob(ctx, commands.CancelJob{Meta: owner, Job: submit.Job}))
}

func (p *process) askJobs(t *testing.T) {
	t.Helper()
	ctx, v := t.Context(), farmviews.Jobs{DB: p.asks}
	runner := idOf(t, 'y', 7)
	for _, q := range []farmviews.JobQuery{
		{All: true}, {All: true, Offset: 30_000}, {All: true, Repo: &p.repo.ID}, {All: true, Q: "tests 777"},
		{Active: true}, {}, {Offset: 30_000}, {Active: true, Offset: 4000}, {Repo: &p.repo.ID}, {Active: true, Repo: &p.repo.ID},
		{Runner: &runner}, {Name: "unit tests 20000"}, {Name: "unit tests 20000", Repo: &p.repo.ID}, {Active: true, Name: "unit tests 2000"},
		{Active: true, Runner: &runner}, {State: events.JobStateSucceeded}, {Active: true, State: events.JobStateQueued}, {Q: "tests 777"},
		{Active: true, Repo: &p.repo.ID, Runner: &runner, State: events.JobStateRunning, Q: "nothing of the kind"},
	} {
		q.Workspace, q.Limit = p.acme, 25
		_, _, err := v.Page(ctx, q)
		require.NoError(t, err)
	}
	job, ok, err := v.Get(ctx, p.acme, idOf(t, 'j', 4000))
	require.True(t, ok, err)
	require.Len(t, done[[]farmviews.Job](t)(v.ByIDs(ctx, p.acme, []events.ID{job.ID, idOf(t, 'j', 4001), newID()})), 2)
	_, ok, err = v.Spec(ctx, p.acme, job.ID)
	require.True(t, ok, err)
	position := done[int](t)(v.Position(ctx, job))
	require.Greater(t, position, 100)
	done[map[events.ID]farmviews.RunnerPresence](t)(farmviews.Runners{DB: p.asks}.Presences(ctx, p.acme, []events.ID{runner}))
	done[farmviews.FarmSummary](t)(farmviews.BuildFarm{DB: p.asks}.Get(ctx, p.acme, time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)))
	overview := done[projections.Overview](t)(projections.Dashboard{DB: p.asks}.Get(ctx, p.acme, 5, epoch))
	require.GreaterOrEqual(t, overview.Queued, 10_000)
	someone := idOf(t, 'u', 7)
	q := done[farmviews.JobQueue](t)(v.Queue(ctx, p.acme, someone, "repo/7", "set-99"))
	require.EqualValues(t, 9997, q.LastTurn)
	require.Equal(t, 21, q.Requirements)
	require.Zero(t, done[farmviews.JobQueue](t)(v.Queue(ctx, p.acme, someone, "repo/7", "set-7")).Requirements,
		"one that is there is not counted")
	require.True(t, done[bool](t)(v.QueueFull(ctx, p.acme, someone, 5000, 6000)))
	job.Key = "deploy-7"
	done[events.ConcurrencyUse](t)(v.KeyUse(ctx, p.acme, job.Key))
	done[farmviews.JobWaits](t)(v.Waits(ctx, p.acme, []farmviews.Job{job}, time.Now()))
	done[[]events.Record](t)(v.Events(ctx, p.long, idOf(t, 'r', 500), 1, 25))

	files := farmviews.Artifacts{DB: p.asks}
	left := idOf(t, 'j', 12042)
	_, total, _, err := files.Page(ctx, p.acme, left, 25, 0)
	require.NoError(t, err)
	require.Equal(t, 5, total)
	_, _, ok, err = files.Get(ctx, p.acme, left, idOf(t, 'o', 1))
	require.True(t, ok, err)
}
