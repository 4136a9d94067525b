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

// A supervisor stands still for longer than a lease while its job does not, as when the machine
// swaps or somebody debugs the supervisor alone. The job starts elsewhere only after its process
// has killed it here: the job holds a lock that the next attempt would find taken.
func TestJobRunsOnceThoughSupervisorStandsStill(t *testing.T) {
	t.Parallel()
	f := openFarm(t, 2, "SVC_JOB_LEASE_SECONDS=20")
	begun, over := filepath.Join(f.scratch, "begun"), filepath.Join(f.scratch, "over")
	id := f.submitScript(0, "echo $SVC_RUNNER_JOB >>"+begun+"; until [ -e "+over+" ]; do sleep 0.1; done")
	attempts := func(n int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(begun) // not there yet
			return strings.Count(string(text), "\n") >= n
		}
	}
	require.Eventually(t, attempts(1), patience, 20*time.Millisecond)
	var busy string
	require.Eventually(t, func() bool {
		return f.db.QueryRow(t.Context(), `select runner_name from jobs where state = 'running'`).Scan(&busy) == nil
	}, patience, 20*time.Millisecond)
	still := f.machines[slices.IndexFunc(f.machines, func(m *machine) bool { return filepath.Base(m.folder) == busy })]
	require.NoError(t, syscall.Kill(still.process.pid(), syscall.SIGSTOP))
	require.Eventually(t, attempts(2), 2*time.Minute, 100*time.Millisecond, "%v", f.unended())
	require.NoError(t, os.WriteFile(over, nil, 0o600))
	require.NoError(t, syscall.Kill(still.process.pid(), syscall.SIGCONT))
	require.Eventually(t, func() bool { return f.unfinished() == 0 }, patience, 100*time.Millisecond)
	f.requireEach([]string{id})
}
