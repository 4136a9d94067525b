//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnwritableFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "job")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "file"), nil, 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a", "b"), 0o500))
	require.NoError(t, RemoveAll(dir))
	require.NoDirExists(t, dir)
}

// removeAll removes a folder while it kills orphans again and again, as a supervisor with other jobs does.
func removeAll(dir string) int {
	var c Children
	if err := c.Adopt(); err != nil {
		return 1
	}
	ctx, removed := context.WithCancel(context.Background())
	var killing sync.WaitGroup
	killing.Go(func() {
		for ctx.Err() == nil {
			c.KillAdopted()
		}
	})
	err := c.RemoveAll(dir)
	removed()
	killing.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Folders may be nested deeper than the process may have files open, and their paths may be longer than a
// system call takes.
func TestDeepFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "job")
	nest := exec.Command("sh", "-c", `
		mkdir "$0" && cd "$0" && i=0 && while [ $i -lt 60 ]; do mkdir $1 && cd -P $1 && i=$((i+1)); done; chmod 500 .`,
		dir, strings.Repeat("d", 200))
	out, err := nest.CombinedOutput()
	require.NoError(t, err, "%s", out)
	remove := exec.Command("sh", "-c", `ulimit -n 40 && exec "$0" remove-all "$1"`, os.Args[0], dir)
	out, err = remove.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoDirExists(t, dir)
}
