//go:build linux

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

// installed returns a program that is enrolled with a farm.
func installed(t *testing.T, f *farm, nobody bool) program {
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o777))
	for dir := filepath.Dir(base); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	text, err := os.ReadFile(f.caFile())
	require.NoError(t, err)
	ca := filepath.Join(base, "ca.pem")
	require.NoError(t, os.WriteFile(ca, text, 0o644))
	p := program{t: t, path: build(t), data: filepath.Join(base, "data"), nobody: nobody}
	p.run(0, []string{"SVC_ENROLL_TOKEN=tok_enr_secret"}, "enroll", "-url", f.server.URL, "-server-ca", ca, "-capacity=4")
	return p
}

// The supervisor stands still while its jobs do not. Each job is killed before its lease expires,
// by its own process.
func TestJobIsKilledThoughSupervisorStandsStill(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.changeWelcome = func(w *wire.Welcome) { w.LeaseSeconds = 14 } // killed 4 s after a heartbeat
	cmd := installed(t, f, false).start()
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	var jobs []attemptKey
	for _, kind := range []string{"none", "bubblewrap"} {
		jobs = append(jobs, f.assign(wire.Assign{LeaseSeconds: 14, Sandbox: wire.Sandbox{Kind: kind}, Steps: steps("echo ready; sleep 600")}))
	}
	for _, k := range jobs {
		require.Eventually(t, func() bool { return strings.Contains(f.log(k), "ready") }, waitLimit, time.Millisecond)
	}
	beats := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.beats)
	}
	before := beats()
	require.Eventually(t, func() bool { return beats() > before+5 }, waitLimit, 10*time.Millisecond)
	require.NotEmpty(t, processesWith(jobs[0].name()), "heartbeats that are answered keep it")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	for _, k := range jobs {
		require.Eventually(t, func() bool { return len(processesWith(k.name())) == 0 }, waitLimit, 10*time.Millisecond)
	}
	require.Less(t, time.Since(began), 14*time.Second, "the lease")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	for _, k := range jobs {
		end := f.ended(k)
		require.Equal(t, "infra", end.Outcome)
		require.Equal(t, "fenced", end.SignalReason)
	}
	require.Equal(t, "succeeded", f.ended(f.assign(wire.Assign{Steps: steps("true")})).Outcome)
}
