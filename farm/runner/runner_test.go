//go:build linux

package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	f.changeWelcome = func(w *wire.Welcome) { w.LeaseSeconds = 12 } // killed 2 s after a heartbeat
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{LeaseSeconds: 12, Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	beats := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.beats)
	}
	before := beats()
	require.Eventually(t, func() bool { return beats() > before+4 }, waitLimit, 10*time.Millisecond) // longer than the lease
	require.True(t, f.with(k, func(j *farmJob) bool { return j.end() == nil })(), "heartbeats that are answered keep it")
	f.mu.Lock()
	f.ignoreHeartbeats = true
	f.mu.Unlock()
	began := time.Now()
	end := f.ended(k)
	require.Equal(t, "infra", end.Outcome)
	require.Equal(t, "fenced", end.SignalReason)
	require.Less(t, time.Since(began), 10*time.Second)
	r.requireNoJobs()
}

// A job begins when the service has confirmed that it is this runner's: a service that did not hear
// the accept gives the job to another runner.
func TestJobBeginsOnceItsAcceptIsStored(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.ignoreAccepts = true
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("true")})
	accepted := func(n int) func() bool { return f.with(k, func(j *farmJob) bool { return j.accepted >= n }) }
	require.Eventually(t, accepted(1), waitLimit, time.Millisecond)
	f.cutAll()
	require.Eventually(t, accepted(2), waitLimit, time.Millisecond, "it is repeated on the next connection")
	f.mu.Lock()
	f.ignoreAccepts = false
	stored := time.Now().Truncate(time.Millisecond)
	f.mu.Unlock()
	f.cutAll()
	end := f.ended(k)
	require.Equal(t, "succeeded", end.Outcome)
	require.False(t, end.StartedAt.Before(stored), "it began at %v", end.StartedAt)
	r.requireNoJobs()
}

func TestUnconfirmedJobIsDroppedBeforeLeaseExpires(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.ignoreAccepts, f.ignoreHeartbeats = true, true
	f.changeWelcome = func(w *wire.Welcome) { w.LeaseSeconds = 12 }
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{LeaseSeconds: 12, Steps: steps("true")})
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.accepted == 1 }), waitLimit, time.Millisecond)
	r.requireNoJobs()
	require.True(t, f.with(k, func(j *farmJob) bool { return len(j.events) == 0 })(), "nothing of it ran")
}

func TestDeclineReasons(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	r := start(t, folder, func(c *Config) { c.Capacity = 1 })
	long := f.assign(wire.Assign{Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(long), "ready") }, waitLimit, time.Millisecond)
	declines := func(want string) {
		t.Helper()
		require.Eventually(t, f.check(func() bool { return len(f.declined) > 0 }), waitLimit, time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Equal(t, want, f.declined[0].Reason)
		f.declined = nil
	}
	f.assign(wire.Assign{Steps: steps("true")})
	declines("busy")
	f.send(wire.Cancel{}, long)
	f.ended(long)
	r.requireNoJobs()
	f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: "podman"}})
	declines("unsupported")
	f.assign(wire.Assign{Sandbox: wire.Sandbox{Kind: "none", Network: "bridge"}})
	declines("unsupported")
	f.assign(wire.Assign{Steps: []wire.Step{{Shell: "fish"}}})
	declines("unsupported")
	f.send(wire.Drain{}, key{})
	f.assign(wire.Assign{Steps: steps("true")})
	declines("draining")
	f.send(wire.Drain{End: true}, key{})
	require.Eventually(t, func() bool { return !r.s.draining() }, waitLimit, time.Millisecond)
	st, err := AskDrain(t.Context(), folder, false)
	require.NoError(t, err)
	require.Equal(t, []string{"svc-runner drain"}, st.Draining)
	f.assign(wire.Assign{Steps: steps("true")})
	declines("draining")
	_, err = AskDrain(t.Context(), folder, true)
	require.NoError(t, err)
	f.ended(f.assign(wire.Assign{Steps: steps("true")}))
	r.cancel()
	require.NoError(t, r.wait())
	_, err = AskStatus(t.Context(), folder)
	require.ErrorIs(t, err, ErrNotRunning)

	start(t, folder, func(c *Config) { c.MinDiskFree = 1 << 60 })
	f.assign(wire.Assign{Steps: steps("true")})
	declines("disk_full")
}

func TestFirstSignalDrainsSecondCancels(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	k := f.assign(wire.Assign{Steps: steps("echo ready; while [ ! -e ../go ]; do sleep 0.05; done")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	r.stop <- syscall.SIGTERM
	require.Eventually(t, r.s.draining, waitLimit, time.Millisecond)
	require.NoError(t, os.WriteFile(r.s.cfg.Folder.path(workFolder, k.name(), "go"), nil, 0o600))
	require.NoError(t, r.wait())
	require.Equal(t, "succeeded", f.ended(k).Outcome)
	require.Eventually(t, f.check(func() bool { return f.goodbyes == 1 }), waitLimit, time.Millisecond)

	r = start(t, r.s.cfg.Folder)
	k = f.assign(wire.Assign{Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	r.stop <- syscall.SIGTERM
	r.stop <- syscall.SIGTERM
	require.NoError(t, r.wait())
	end := f.ended(k)
	require.Equal(t, "infra", end.Outcome)
	require.Equal(t, "agent_stop", end.SignalReason)
}

func TestRevokedRunnerExits(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	f.close(wire.CloseRevoked)
	require.ErrorIs(t, r.wait(), ErrRefused)

	f.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 403, "runner_revoked")
		return true
	}
	require.ErrorIs(t, start(t, r.s.cfg.Folder).wait(), ErrRefused)
}

func TestSupersededRunnerWaits(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	f.close(wire.CloseSuperseded)
	require.Eventually(t, func() bool { return strings.Contains(r.s.status().LastError, "4002") }, waitLimit, time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "again_in=1m0s") }, waitLimit, time.Millisecond)
}

// A new supervisor reports the end of the jobs of a killed one, after the last message that the
// service has, even if the disk has fewer messages than the service.
func TestNewSupervisorReportsLostEnd(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	for _, acked := range []int64{0, 2, 9} {
		k := f.assign(wire.Assign{Steps: steps("true")})
		j := newJob(k, [16]byte{}, folder.path(spoolFolder, k.name()))
		writeLostSpool(t, j)
		f.mu.Lock()
		f.jobs[k].last = acked
		f.mu.Unlock()
		require.NoError(t, os.MkdirAll(folder.path(workFolder, k.name(), "work", "left"), 0o700))
		r := start(t, folder)
		end := f.ended(k)
		require.Equal(t, "infra", end.Outcome)
		require.Equal(t, "agent_restarted", end.Reason)
		kinds := f.kinds(k)
		require.Equal(t, []string{"notice", "finished"}, kinds[len(kinds)-2:])
		require.True(t, f.with(k, func(j *farmJob) bool { return j.last == max(acked, 3)+2 })())
		r.requireNoJobs()
		r.cancel()
		require.NoError(t, r.wait())
	}
}

// An interrupted upload is resumed, also by a new supervisor. A final refusal ends it.
func TestUploadsAreResumed(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	var lengths []int64
	f.uploading = func(n int, w http.ResponseWriter, r *http.Request) bool {
		lengths = append(lengths, r.ContentLength)
		switch n {
		case 1:
			refuseWith(w, 503, "artifact_store_unavailable")
		case 3: // breaks off in the middle of the first chunk
			_, _ = r.Body.Read(make([]byte, 1<<20))
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		default:
			return false
		}
		return true
	}
	r := start(t, f.enrolled())
	spec := wire.Assign{Steps: steps("head -c 20000000 /dev/urandom >big; : >empty; ln -s /etc/passwd link"),
		Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"*"}}}}
	k := f.assign(spec)
	require.Equal(t, 2, f.ended(k).Artifacts)
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.complete }), waitLimit, 10*time.Millisecond)
	r.requireNoJobs()
	f.mu.Lock()
	require.Empty(t, f.problems)
	require.Equal(t, 5, f.uploads)
	require.Less(t, lengths[1], int64(2000), "only the manifest")
	require.Greater(t, lengths[2], int64(20_000_000), "all that is missing, with its length")
	f.uploads, f.uploading = 0, func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 413, "artifact_too_large")
		return true
	}
	f.mu.Unlock()
	f.ended(f.assign(spec))
	r.requireNoJobs()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, 1, f.uploads, "what is too large is never sent again")
}

func TestCheckout(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	start(t, f.enrolled())
	repo, commit := repository(t)
	for _, source := range []wire.Source{
		{URL: "file://" + repo, Commit: commit}, {URL: "file://" + repo, Ref: "refs/heads/main"},
		{URL: "file://" + repo, Ref: "refs/heads/main", Commit: commit},
	} {
		k := f.assign(wire.Assign{Source: &source, Steps: steps("cat file; git rev-parse HEAD; git config --get core.hookspath || echo none")})
		require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
		require.Contains(t, f.log(k), "content\n"+commit+"\n")
	}
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

func TestStatusSaysWhatRuns(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	folder := f.enrolled()
	start(t, folder)
	k := f.assign(wire.Assign{Name: "long", Steps: steps("echo ready; sleep 600")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	st, err := AskStatus(t.Context(), folder)
	require.NoError(t, err)
	require.False(t, st.Connected.IsZero())
	require.Equal(t, "builder-1", st.Name)
	require.Len(t, st.Jobs, 1)
	require.Equal(t, "running long", st.Jobs[0].State+" "+st.Jobs[0].Name)
	require.Eventually(t, f.check(func() bool {
		last := f.beats[len(f.beats)-1]
		return len(last.Jobs) == 1 && last.Jobs[0].Job == k.job && last.Jobs[0].RSSBytes > 1<<20 && len(last.Held) == 1 && last.Free == 3
	}), waitLimit, 10*time.Millisecond)
	_, err = NewSupervisor(t.Context(), Config{Folder: Folder(t.TempDir())})
	require.ErrorIs(t, err, ErrNotEnrolled)
	_, err = folder.Uninstall(t.Context())
	require.ErrorIs(t, err, ErrRunning)
}
