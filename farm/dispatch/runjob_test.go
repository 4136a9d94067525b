package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rules "svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/jobinput"
	"svc/farm/queue"
	"svc/farm/wire"
	"svc/projections/farmviews"
	"svc/test/world"
)

// newRunJob returns a running job of a run, and its run.
func newRunJob(t *testing.T, change ...func(*events.JobSpec)) (j *running, run events.ID, loop commands.Meta) {
	t.Helper()
	s, repo := newSite(t), newID()
	j, run = &running{site: s, r: s.replica()}, newID()
	j.runner = s.enrol(j.r, "builder", 2, 0)
	j.a = dial(t, j.r, s.ws, j.runner)
	j.a.greet()
	loop = systemMeta(s.ws)
	loop.Actor = commands.LoopOf(repo)
	_, err := j.r.QueueRun(t.Context(), commands.QueueRun{
		Meta: loop, Run: run, Repo: events.Repo{ID: repo, Name: "acme/web"}, IssueNumber: 1, IssueTitle: "Fix it",
	})
	require.NoError(t, err)
	_, err = j.r.RecordRun(t.Context(), commands.RecordRun{Meta: loop, Run: run, Facts: world.Implementing(1)})
	require.NoError(t, err)
	commit := "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
	spec := events.JobSpec{
		Name: "implement", Repo: &events.JobRepo{ID: repo, Commit: commit}, Steps: []events.JobStep{{Run: "agent"}},
		Sandbox: events.JobSandbox{Kind: "none"}, Collect: true,
		Timeouts: events.JobTimeouts{CancelGraceSeconds: 10, IdleSeconds: 300},
	}
	for _, f := range change {
		f(&spec)
	}
	spec, err = rules.CheckJob(spec)
	require.NoError(t, err)
	q := queue.Queue{
		Commands: j.r.Handler, Jobs: farmviews.Jobs{DB: s.db}, Inputs: jobinput.Inputs{DB: s.db, Now: s.clock.now}, Now: s.clock.now,
	}
	j.r.Views.Turn = q.Turn
	_, err = q.StartRunJob(t.Context(), commands.StartRunJob{
		Meta: loop, Run: run, After: 1 + len(world.Implementing(1)),
		Request: events.RunJobRequested{Job: newID(), Name: spec.Name, Head: commit, Purpose: events.JobImplements, Attempt: 1},
		Spec:    spec, RepoName: "acme/web",
	}, []byte(`{"contract":1}`))
	require.NoError(t, err)
	var a wire.Assign
	j.job, j.epoch, a = j.a.assigned()
	require.Equal(t, `{"contract":1}`, string(a.Input))
	require.Equal(t, wire.Artifact{Name: rules.OutArtifact, Paths: []string{".svc-out/**"}, When: "always"}, a.Artifacts[0])
	require.Equal(t, commit, a.Source.Commit)
	require.Equal(t, commit, a.Env["SVC_COMMIT"])
	j.begin()
	return j, run, loop
}

// When a run ends, its runner is told at once.
func TestEndOfRunStopsItsJob(t *testing.T) {
	t.Parallel()
	j, run, loop := newRunJob(t)
	began := time.Now()
	_, err := j.r.RecordRun(t.Context(), commands.RecordRun{
		Meta: loop, Run: run, Facts: []events.Event{events.RunFailed{Reason: "gave up", Code: events.FailGaveUp}},
	})
	require.NoError(t, err)
	cancel := body[wire.Cancel](t, j.a.next(wire.TypeCancel))
	require.Less(t, time.Since(began), 2*time.Second)
	require.Equal(t, wire.Cancel{GraceSeconds: 10, Reason: commands.RunOver}, cancel)
	end := finished("one\n")
	end.Outcome = "cancelled"
	j.a.send(end, j.job, j.epoch, 3)
	j.a.acked(3)
	require.Equal(t, events.JobStateCancelled, j.state(j.job))
	done, err := j.r.SettleRunJob(t.Context(), commands.SettleRunJob{Meta: loop, Run: run, Job: j.job})
	require.NoError(t, err)
	require.False(t, done.Idle, "the cost of the job is recorded after the end of its run")
}

// Whoever cancels a run's job by hand, the run learns how it ended.
func TestRunJobCancelledByHandSettles(t *testing.T) {
	t.Parallel()
	j, run, loop := newRunJob(t)
	_, err := j.r.CancelJob(t.Context(), commands.CancelJob{Meta: systemMeta(j.ws), Job: j.job, Reason: "not today"})
	require.NoError(t, err)
	j.a.next(wire.TypeCancel)
	settle := func() commands.Result {
		done, err := j.r.SettleRunJob(t.Context(), commands.SettleRunJob{Meta: loop, Run: run, Job: j.job, CentsPerMinute: 60})
		require.NoError(t, err)
		return done
	}
	require.True(t, settle().Idle, "it has not ended")
	end := finished("one\n")
	end.Outcome, end.Reason, end.Artifacts = "cancelled", "cancel", 1
	j.a.send(end, j.job, j.epoch, 3)
	j.a.acked(3)
	require.True(t, settle().Idle, "its artifacts follow")
	file := events.JobArtifact{ID: newID(), Name: rules.OutArtifact, Path: ".svc-out/change.diff", Size: 1}
	_, err = j.r.DeclareArtifacts(t.Context(), commands.DeclareArtifacts{
		Meta: systemMeta(j.ws), Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: []events.JobArtifact{file},
	})
	require.NoError(t, err)
	_, err = j.r.StoreArtifacts(t.Context(), commands.StoreArtifacts{
		Meta: systemMeta(j.ws), Job: j.job, Runner: j.runner, Epoch: j.epoch, Files: []events.ID{file.ID},
	})
	require.NoError(t, err)
	require.False(t, settle().Idle)
	list, err := farmviews.Jobs{DB: j.db}.Events(t.Context(), j.ws, run, 2+len(world.Implementing(1)), 10)
	require.NoError(t, err)
	settled := list[0].Event.(events.RunJobSettled)
	require.Equal(t, "cancelled not today", settled.Status+" "+settled.Reason)
	tail, err := j.r.logs.Tail(t.Context(), j.ws, j.job, j.epoch, 3)
	require.NoError(t, err)
	require.Equal(t, "ne\n", string(tail))
}
