package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Help and unknown arguments start nothing.
func TestHelpStartsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := func(args ...string) (int, string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(s.programs, "svc"), args...)
		cmd.Env = s.environ
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, arg := range []string{"-h", "-help", "--help", "help"} {
		status, out := run(arg)
		require.Zero(t, status, out)
		require.Contains(t, out, "Usage: svc [flags]")
		require.Contains(t, out, "SVC_DATA_DIR")
	}
	for _, args := range [][]string{{"start"}, {"-verbose"}, {"--", "me"}} {
		status, out := run(args...)
		require.Equal(t, 2, status, out)
		require.Equal(t, "svc: unknown arguments\nTry svc -help.\n", out)
	}
	require.NoDirExists(t, s.data)
	require.NoFileExists(t, s.calls)
}
