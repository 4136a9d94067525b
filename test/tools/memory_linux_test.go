package tools

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInMemoryRemovesFoldersOfKilledRuns(t *testing.T) {
	t.Parallel()
	ended := exec.CommandContext(t.Context(), "true")
	require.NoError(t, ended.Run())
	folder := func(pid int) string {
		name, err := os.MkdirTemp("/dev/shm", fmt.Sprintf("svc-test-%d-", pid))
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(name) })
		return name
	}
	left, used := folder(ended.Process.Pid), folder(os.Getpid())
	run := script(t, t.TempDir(), "in-memory", []string{"printenv", "TMPDIR"}, "TMPDIR=")
	out, err := run.Output()
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.DirExists(t, used)
	if name := strings.TrimSpace(string(out)); name != "" { // there was space
		require.Contains(t, name, fmt.Sprintf("/svc-test-%d-", run.Process.Pid))
		require.NoDirExists(t, name)
	}
}
