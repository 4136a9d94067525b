//go:build linux && !race

package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestJobRunsOnceWhileSupervisorIsPaused pauses a supervisor, but not its job, for longer than a lease,
// as swapping or a debugger may do. The job may start elsewhere only after its process was killed here:
// it holds a lock that the next attempt would find taken.
func TestJobRunsOnceWhileSupervisorIsPaused(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, "SVC_JOB_LEASE_SECONDS=20")
	begun, over := filepath.Join(f.scratch, "begun"), filepath.Join(f.scratch, "over")
	id := f.submitScript(0, "echo $SVC_RUNNER_JOB >>"+begun+"; until [ -e "+over+" ]; do sleep 0.1; done")
	attempts := func(n int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(begun) // it may not exist yet
			return strings.Count(string(text), "\n") >= n
		}
	}
	require.Eventually(t, attempts(1), waitLimit, 20*time.Millisecond)
	var busy string
	require.Eventually(t, func() bool {
		return f.db.QueryRow(t.Context(), `select runner_name from jobs where state = 'running'`).Scan(&busy) == nil
	}, waitLimit, 20*time.Millisecond)
	paused := f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return filepath.Base(m.folder) == busy })]
	require.NoError(t, syscall.Kill(paused.process.pid(), syscall.SIGSTOP))
	require.Eventually(t, attempts(2), 2*time.Minute, 100*time.Millisecond, "%v", f.describeUnfinished())
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	require.NoError(t, syscall.Kill(paused.process.pid(), syscall.SIGCONT))
	require.Eventually(t, func() bool { return f.countUnfinished() == 0 }, waitLimit, 100*time.Millisecond)
	f.requireEachJobOnce([]string{id})
}
