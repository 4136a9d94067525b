package commands_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/test/world"
)

// loops returns the Meta of what the service does for the runs of the repository web.
func loops(workspace events.ID) commands.Meta {
	m := systems(workspace)
	m.Actor = commands.LoopOf(web.ID)
	return m
}

// coding queues an issue, and returns its run when it implements and the version of the run's stream.
func (m *team) coding(t *testing.T, issue int) (run events.ID, version int) {
	t.Helper()
	run = m.queue(t, issue)
	facts := world.Implementing(issue)
	_, err := m.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: facts})
	require.NoError(t, err)
	return run, 1 + len(facts)
}

// startRunJob returns a command that starts a job of a run.
func startRunJob(t *testing.T, workspace, run events.ID) commands.StartRunJob {
	t.Helper()
	job := newID()
	spec, err := farm.CheckJob(events.JobSpec{
		Name: job.String(), Repo: &events.JobRepo{ID: web.ID, Commit: commit('a')}, Steps: []events.JobStep{{Run: "true"}},
	})
	require.NoError(t, err)
	return commands.StartRunJob{
		Meta: loops(workspace), Run: run,
		Request: events.RunJobRequested{Job: job, Name: spec.Name, Head: commit('a'), Purpose: events.JobImplements, Attempt: 1},
		Spec:    spec, RepoName: web.Name,
	}
}

func commit(digit byte) string {
	b := make([]byte, 40)
	for i := range b {
		b[i] = digit
	}
	return string(b)
}

// A run's event and the job are stored in one commit.
func TestStartRunJob(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, version := m.coding(t, 1)
	before := m.head(t, m.id)
	c := startRunJob(t, m.id, run)
	c.After = version
	done, err := m.StartRunJob(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, before+2, done.Position)
	list := m.history(t, m.id, before+1)
	require.Equal(t, c.Request, list[0])
	submitted := list[1].(events.JobSubmitted)
	require.Equal(t, web.Name, submitted.Spec.Repo.Name)
	require.Equal(t, int64(7), submitted.Turn)
	require.Equal(t, events.JobStateQueued, m.stateOf(t, c.Request.Job))
	var by string
	require.NoError(t, m.db.QueryRow(t.Context(), `
		select submitted_by ->> 'id' from jobs where workspace_id = $1 and job_id = $2`, m.id, c.Request.Job).Scan(&by))
	require.Equal(t, web.ID.String(), by, "jobs of runs count for their repository")

	for name, test := range map[string]struct {
		change func(*commands.StartRunJob)
		want   error
	}{
		"the run has moved":     {func(c *commands.StartRunJob) { c.After = 1 }, commands.ErrRunMoved},
		"the same job again":    {func(*commands.StartRunJob) {}, aggregates.ErrRunOutOfStep},
		"no run":                {func(c *commands.StartRunJob) { c.Run = newID() }, nil},
		"another actor":         {func(c *commands.StartRunJob) { c.Request.Job, c.Actor = newID(), systems(m.id).Actor }, nil},
		"another input":         {func(c *commands.StartRunJob) { c.Request.Job, c.Spec.InputSHA256 = newID(), "00" }, nil},
		"a queue without room":  {func(c *commands.StartRunJob) { c.Request.Job, c.Request.Name = newID(), "more" }, errFull},
		"the id of another job": {func(c *commands.StartRunJob) { c.Request.Job = m.submitJob(t) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			c.After = 0
			test.change(&c)
			before, ctx := m.head(t, m.id), t.Context()
			if errors.Is(test.want, errFull) {
				ctx = world.WithTurn(ctx, 0, errFull)
			}
			for _, r := range []replica{m.other, m.replica} {
				_, err := r.StartRunJob(ctx, c)
				require.Error(t, err)
				if test.want != nil {
					require.ErrorIs(t, err, test.want)
				}
			}
			require.Empty(t, m.history(t, m.id, before+1))
		})
	}
}

var errFull = errors.New("full")

// Of two replicas that start a job of the same run at the same version one succeeds, with both events.
func TestStartRunJobTwice(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, version := m.coding(t, 1)
	before := m.head(t, m.id)
	jobs := []commands.StartRunJob{startRunJob(t, m.id, run), startRunJob(t, m.id, run)}
	requireOne(t, race(func(i int) error {
		c := jobs[i%2]
		c.After = version
		_, err := []replica{m.replica, m.other}[i%2].StartRunJob(context.Background(), c)
		return err
	}), commands.ErrRunMoved)
	require.Len(t, m.history(t, m.id, before+1), 2)
}

// A stale result of the loop is dropped, whatever the replica remembers.
func TestT9StaleResultsAreDropped(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run := m.queue(t, 1)
	record := func(r replica, after int, e events.Event) error {
		_, err := r.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, After: after, Facts: []events.Event{e}})
		return err
	}
	before, facts := m.head(t, m.id), events.RunFactsRecorded{Facts: []string{"one"}}
	require.ErrorIs(t, record(m.replica, 2, facts), commands.ErrRunMoved)
	require.NoError(t, record(m.replica, 1, facts))
	require.NoError(t, record(m.other, 2, facts))
	require.ErrorIs(t, record(m.replica, 2, facts), commands.ErrRunMoved, "its memory is one event behind")
	require.NoError(t, record(m.replica, 3, facts))
	require.NoError(t, record(m.replica, 0, facts))
	m.requireAdded(t, m.id, before, facts, facts, facts, facts)
}

// When a run ends its jobs are cancelled in the same commit, and no other job.
func TestR42TheEndOfARunCancelsItsJobs(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	for i, end := range []func(run events.ID) error{
		func(run events.ID) error {
			_, err := m.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: run})
			return err
		},
		func(run events.ID) error {
			_, err := m.other.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run,
				Facts: []events.Event{events.RunFailed{Reason: "gave up", Code: events.FailGaveUp}}})
			return err
		},
		func(run events.ID) error {
			_, err := m.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: []events.Event{events.RunRejected{}}})
			return err
		},
	} {
		run, version := m.coding(t, i+1)
		waiting, leased, over := startRunJob(t, m.id, run), startRunJob(t, m.id, run), startRunJob(t, m.id, run)
		waiting.Spec.Concurrency = &events.JobConcurrency{Key: "deploy", Limit: 1}
		leased.Spec.Concurrency = waiting.Spec.Concurrency
		for _, c := range []commands.StartRunJob{over, leased, waiting} {
			_, err := m.other.StartRunJob(t.Context(), c)
			require.NoError(t, err)
		}
		alien := m.submitJob(t)
		_, err := m.CancelJob(t.Context(), commands.CancelJob{Meta: systems(m.id), Job: over.Request.Job})
		require.NoError(t, err)
		require.NoError(t, m.lease(m.replica, leased.Request.Job, runner, 1))
		_, err = m.log.Append(t.Context(), &events.Commit{ // as an earlier build requested jobs
			Workspace: m.id, At: m.clock.now(),
			Writes: []events.Write{{Stream: run, Version: version + 3, Events: []events.Event{events.RunJobRequested{Job: newID(), Name: "old"}}}},
		})
		require.NoError(t, err)

		before := m.head(t, m.id)
		require.NoError(t, end(run))
		records := m.records(t, m.id, before+1)
		require.Len(t, records, 3)
		for _, r := range records {
			require.Equal(t, records[0].At, r.At)
		}
		require.Equal(t, events.JobStateCancelled, m.stateOf(t, waiting.Request.Job))
		require.Equal(t, events.JobStateCancelling, m.stateOf(t, leased.Request.Job))
		require.Equal(t, events.JobStateQueued, m.stateOf(t, alien))
		_, err = m.other.DeclineJob(t.Context(), commands.DeclineJob{
			Meta: systems(m.id), Job: leased.Request.Job, Runner: runner, Epoch: 1, Reason: "cancelled",
		})
		require.NoError(t, err, "and frees the slot of the key for the next")
		require.Equal(t, events.JobStateCancelled, m.stateOf(t, leased.Request.Job))
	}
}

// A job is settled once, when nothing more comes of it.
func TestT5JobsSettleWhenNothingMoreComes(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	run, _ := m.coding(t, 1)
	c := startRunJob(t, m.id, run)
	c.Spec.Artifacts = []events.JobArtifactSpec{{Name: "out", Paths: []string{"out"}, When: "always", Required: true}}
	_, err := m.StartRunJob(t.Context(), c)
	require.NoError(t, err)
	job := c.Request.Job
	settle := func(r replica) commands.Result {
		t.Helper()
		done, err := r.SettleRunJob(t.Context(), commands.SettleRunJob{Meta: loops(m.id), Run: run, Job: job, CentsPerMinute: 1.5})
		require.NoError(t, err)
		return done
	}
	report := func(seq int64, e events.Event) {
		t.Helper()
		_, err := m.other.ReportJob(t.Context(), commands.ReportJob{Meta: systems(m.id), Job: job, Runner: runner,
			Report: farm.JobReport{Epoch: 1, Seq: seq, Event: e}})
		require.NoError(t, err)
	}
	require.True(t, settle(m.replica).Idle)
	require.NoError(t, m.lease(m.other, job, runner, 0))
	report(1, events.JobStarted{})
	m.clock.move(2 * time.Minute)
	report(2, events.JobFinished{Reported: "succeeded", ExitCode: ptr(0), Artifacts: 1})
	require.True(t, settle(m.replica).Idle, "its artifacts follow")
	state, err := m.RunJobState(t.Context(), m.id, job)
	require.NoError(t, err)
	require.Equal(t, commands.RunJobState{State: events.JobStateSucceeded, Epoch: 1}, state)

	_, err = m.other.AbandonArtifacts(t.Context(), commands.AbandonArtifacts{
		Meta: systems(m.id), Job: job, EndedBy: m.clock.now().Add(time.Minute),
	})
	require.NoError(t, err)
	before := m.head(t, m.id)
	require.False(t, settle(m.replica).Idle)
	m.requireAdded(t, m.id, before,
		events.RunJobSettled{Job: job, Status: "failed", ComputeMS: 120_000, Reason: events.ArtifactMissing, ExitCode: ptr(0)},
		events.RunCostRecorded{Repo: web.ID, Key: "job/" + job.String() + "/farm", Source: "farm", Quantity: 120_000, Cents: 3})
	require.True(t, settle(m.replica).Idle)
	require.True(t, settle(m.other).Idle)
	state, err = m.other.RunJobState(t.Context(), m.id, job)
	require.NoError(t, err)
	require.Equal(t, commands.RunJobState{State: events.JobStateFailed, Closed: true, Epoch: 1}, state)

	alien := m.submitJob(t)
	_, err = m.CancelJob(t.Context(), commands.CancelJob{Meta: systems(m.id), Job: alien})
	require.NoError(t, err)
	_, err = m.SettleRunJob(t.Context(), commands.SettleRunJob{Meta: loops(m.id), Run: run, Job: alien})
	require.ErrorIs(t, err, aggregates.ErrRunOutOfStep)
}

// All runs of an issue share its budget, whichever replica spends it.
func TestR35RunsOfAnIssueShareItsBudget(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	c := m.connection(web.Name)
	c.Repo, c.Settings.IssueCents = web.ID, 100
	_, err := m.ConnectRepo(t.Context(), c)
	require.NoError(t, err)
	record := func(run events.ID, e events.Event) {
		t.Helper()
		_, err := m.other.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: []events.Event{e}})
		require.NoError(t, err)
	}
	first, _ := m.coding(t, 1)
	record(first, events.RunCostRecorded{Cents: 60, Key: "job/1/model"})
	record(first, events.RunCancelled{})
	second, _ := m.coding(t, 1)
	_, err = m.StartRunJob(t.Context(), startRunJob(t, m.id, second))
	require.NoError(t, err, "40 cents are left")
	record(first, events.RunCostRecorded{Cents: 40, Key: "job/1/farm"}) // a late bill
	for _, r := range []replica{m.replica, m.other} {
		_, err = r.StartRunJob(t.Context(), startRunJob(t, m.id, second))
		require.ErrorIs(t, err, commands.ErrRunMoved)
		issue, err := r.Issue(t.Context(), m.id, web.ID, 1)
		require.NoError(t, err)
		cents, unknown := issue.Costs()
		require.Equal(t, []any{int64(100), false}, []any{cents, unknown})
	}
	other, _ := m.coding(t, 2)
	_, err = m.StartRunJob(t.Context(), startRunJob(t, m.id, other))
	require.NoError(t, err, "another issue has a budget of its own")
	record(other, events.RunCostRecorded{Unknown: true, Key: "job/2/model"})
	_, err = m.StartRunJob(t.Context(), startRunJob(t, m.id, other))
	require.ErrorIs(t, err, commands.ErrRunMoved, "what nobody knows may have cost all of it")
}

// A job that a person cancelled settles, also after the end of its run.
func TestR9JobsCancelledByHandSettle(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run, _ := m.coding(t, 1)
	byHand, atEnd := startRunJob(t, m.id, run), startRunJob(t, m.id, run)
	for _, c := range []commands.StartRunJob{byHand, atEnd} {
		_, err := m.StartRunJob(t.Context(), c)
		require.NoError(t, err)
	}
	_, err := m.CancelJob(t.Context(), commands.CancelJob{Meta: m.owner.in(m.id), Job: byHand.Request.Job, Reason: "too slow"})
	require.NoError(t, err)
	_, err = m.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: run})
	require.NoError(t, err)
	for job, reason := range map[events.ID]string{byHand.Request.Job: "too slow", atEnd.Request.Job: commands.RunOver} {
		before := m.head(t, m.id)
		_, err := m.other.SettleRunJob(t.Context(), commands.SettleRunJob{Meta: loops(m.id), Run: run, Job: job})
		require.NoError(t, err)
		require.Equal(t, events.RunJobSettled{Job: job, Status: "cancelled", Reason: reason}, m.history(t, m.id, before+1)[0])
	}
}
