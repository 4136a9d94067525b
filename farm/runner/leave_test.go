package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// writeLostSpool writes the spool of a job whose supervisor was killed: three messages, and no end.
func writeLostSpool(t *testing.T, j *job) {
	var err error
	require.NoError(t, os.MkdirAll(filepath.Dir(j.dir), 0o700))
	j.spool, err = spool.Create(j.dir)
	require.NoError(t, err)
	for _, e := range []wire.Event{{Kind: wire.EventStarted}, {Kind: wire.EventStepStarted}, {Kind: wire.EventNotice, Text: "one"}} {
		require.NoError(t, j.appendEvent(e))
	}
	require.NoError(t, j.spool.Close())
}

// repository creates a git repository with a commit, and a hook that must not run.
func repository(t *testing.T, initOptions ...string) (dir, commit string) {
	dir = t.TempDir()
	inGit(t, dir, append([]string{"init", "--quiet", "--initial-branch=main"}, initOptions...)...)
	return dir, commitFiles(t, dir, map[string]string{"file": "content\n"})
}

// commitFiles commits files, and whatever else has been added, to the repository in dir.
func commitFiles(t *testing.T, dir string, files map[string]string) (commit string) {
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		inGit(t, dir, "add", name)
	}
	inGit(t, dir, "commit", "--quiet", "-m", "one")
	return inGit(t, dir, "rev-parse", "HEAD")
}

func inGit(t *testing.T, dir string, args ...string) string {
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}
