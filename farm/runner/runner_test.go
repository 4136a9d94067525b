//go:build linux

package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/executor"
	"svc/farm/wire"
)

func TestJobRunsFromAssignToAck(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{
		Name: "tests", Env: map[string]string{"SVC_JOB": "one"}, Secrets: map[string]string{"NPM_TOKEN": "hunter2-hunter2"},
		Steps: steps("echo $SVC_JOB; echo token $NPM_TOKEN",
			"mkdir -p dist/sub; echo hello >dist/a; echo $NPM_TOKEN | base64 ; printf x >dist/sub/b"),
		Artifacts: []wire.Artifact{{Name: "dist", Paths: []string{"dist/**"}, When: "success", Required: true}}, RunSeconds: 60, GraceSeconds: 5,
	})
	end := f.ended(k)
	require.Equal(t, "succeeded", end.Outcome)
	require.Equal(t, 0, *end.ExitCode)
	require.Equal(t, 2, end.Artifacts)
	require.Equal(t, []string{"started", "step.started", "step.finished", "step.started", "step.finished", "finished"}, f.kinds(k))
	log := f.log(k)
	require.Contains(t, log, "one\ntoken ***\n")
	require.NotContains(t, log, "hunter2")
	require.NotContains(t, log, "aHVudGVyMi")
	sum := sha256.Sum256([]byte(log))
	require.Equal(t, wire.LogSum{Bytes: int64(len(log)), Chunks: end.Log.Chunks, SHA256: hex.EncodeToString(sum[:])}, *end.Log)
	require.Positive(t, end.Log.Chunks)
	r.requireNoJobs()
	require.True(t, f.with(k, func(j *farmJob) bool { return j.complete && string(j.files["f1.0"]) == "hello\n" && j.accepted == 1 })())
}

func TestJobOutcomes(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	for name, c := range map[string]struct {
		spec wire.Assign
		want wire.Event
	}{
		"a step fails": {wire.Assign{Steps: steps("exit 3", "echo never")}, wire.Event{Outcome: "failed", ExitCode: number(3)}},
		"a signal":     {wire.Assign{Steps: steps("kill -TERM $$")}, wire.Event{Outcome: "failed", ExitCode: number(143), Signal: "SIGTERM"}},
		"the run takes too long": {wire.Assign{RunSeconds: 1, Steps: steps("sleep 600")},
			wire.Event{Outcome: "timed_out", ExitCode: number(137), Signal: "SIGKILL", SignalReason: "run_timeout", Reason: "run_timeout"}},
		"a step takes too long": {wire.Assign{RunSeconds: 60, GraceSeconds: 20,
			Steps: []wire.Step{{Name: "slow", Run: "exec sleep 600", TimeoutSeconds: 1}}},
			wire.Event{Outcome: "timed_out", ExitCode: number(143), Signal: "SIGTERM", SignalReason: "step_timeout", Reason: "step_timeout"}},
		"a required artifact is missing": {wire.Assign{Steps: steps("true"),
			Artifacts: []wire.Artifact{{Name: "dist", Paths: []string{"dist"}, Required: true},
				{Name: "other", Paths: []string{"x"}}}},
			wire.Event{Outcome: "failed", ExitCode: number(0), Reason: "artifact_missing", MissingArtifacts: []string{"dist"}}},
		"no such repository": {wire.Assign{Steps: steps("true"), Source: &wire.Source{URL: "file:///no/such", Ref: "refs/heads/main"}},
			wire.Event{Outcome: "failed", ExitCode: number(128), Reason: "checkout_failed"}},
		"a program as a repository": {wire.Assign{Steps: steps("true"), Source: &wire.Source{URL: "ext::sh -c true", Ref: "refs/heads/main"}},
			wire.Event{Outcome: "failed", Reason: "checkout_failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			end := f.ended(f.assign(c.spec))
			got := wire.Event{Outcome: end.Outcome, Reason: end.Reason, ExitCode: end.ExitCode, Signal: end.Signal, SignalReason: end.SignalReason,
				MissingArtifacts: end.MissingArtifacts}
			require.Equal(t, c.want, got)
		})
	}
	r.requireNoJobs()
}

func number(n int) *int { return &n }

func TestCancelledJob(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("trap 'echo cleaned; exit 1' TERM; echo ready; sleep 600 & wait")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	f.send(wire.Cancel{GraceSeconds: 20}, k)
	end := f.ended(k)
	require.Equal(t, "cancelled", end.Outcome)
	require.Equal(t, "cancel", end.SignalReason)
	require.Equal(t, "ready\ncleaned\n", f.log(k))
	r.requireNoJobs()
}

// Shortening the grace period to zero kills the job at once, and its artifacts are still collected.
func TestCancelWithoutGraceKillsJob(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{
		Steps:     steps("trap 'echo asked' TERM; echo kept > kept; echo ready; while :; do sleep 0.1 || :; done"),
		Artifacts: []wire.Artifact{{Name: "kept", Paths: []string{"kept"}, When: "always"}},
	})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	f.send(wire.Cancel{GraceSeconds: 600}, k)
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "asked") }, waitLimit, time.Millisecond)
	f.send(wire.Cancel{}, k)
	end := f.ended(k)
	require.Equal(t, "cancelled", end.Outcome)
	require.Equal(t, "cancel", end.SignalReason)
	require.Equal(t, "SIGKILL", end.Signal)
	require.Equal(t, 1, end.Artifacts)
	r.requireNoJobs()
}

func TestStoppedJobLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("trap '' TERM; echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	f.mu.Lock()
	f.jobs[k].stopped = true
	f.mu.Unlock()
	f.send(wire.Stop{}, k)
	r.requireNoJobs()
}

// Without acknowledged heartbeats, the job is killed before its lease expires, counted from when
// the last acknowledged heartbeat was sent.
func TestJobIsKilledBeforeLeaseExpires(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	const lease = 15 * time.Second // killed 5 s after a heartbeat
	f.changeWelcome = func(w *wire.Welcome) { w.LeaseSeconds = int(lease.Seconds()) }
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{LeaseSeconds: int(lease.Seconds()), Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	fence := r.s.heldJob(k).fence
	before := fence()
	require.Eventually(t, func() bool { return fence().Fence > before.Fence }, waitLimit, 10*time.Millisecond)
	f.mu.Lock()
	f.ignoreHeartbeats = true
	f.mu.Unlock()
	began, last := time.Now(), fence()
	end := f.ended(k)
	require.GreaterOrEqual(t, executor.BootTime(), last.Fence, "heartbeats that are answered keep it")
	require.Equal(t, "infra", end.Outcome)
	require.Equal(t, "fenced", end.SignalReason)
	require.Less(t, time.Since(began), lease)
	r.requireNoJobs()
}

func TestJobRunsInSandbox(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	require.Contains(t, r.s.sandboxes, "bubblewrap", "make bubblewrap-check installs it")
	k := f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: "bubblewrap", Network: "none"}, Secrets: map[string]string{"S": "secret-value"},
		Steps: steps("pwd; echo $S; ls "+filepath.Dir(string(r.s.cfg.Folder))+" 2>&1 || echo hidden", "setsid sleep 600 & echo two")})
	require.Equal(t, "succeeded", f.ended(k).Outcome)
	require.Contains(t, f.log(k), "/work\n***\n")
	require.Contains(t, f.log(k), "hidden\n")
	r.requireNoJobs()
}
