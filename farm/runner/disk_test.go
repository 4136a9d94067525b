package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

func TestDiskUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := diskUsage(t.Context(), dir)
	write := func(name string, n int) {
		t.Helper()
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte{1}, n), 0o600))
	}
	write("a", 3<<20)
	write("sub/deep/b", 2<<20)
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<40))
	require.NoError(t, sparse.Close())
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "again")))
	require.NoError(t, os.Symlink("/usr", filepath.Join(dir, "elsewhere")))
	used := diskUsage(t.Context(), dir, filepath.Join(dir, "none")) - empty
	require.GreaterOrEqual(t, used, int64(5<<20))
	require.Less(t, used, int64(6<<20))
}

// A job that fills the disk is killed and fails, whatever it fills. Another job at the same time is
// not concerned.
func TestJobIsKilledOverDiskLimit(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), func(c *Config) { c.MaxJobDisk = 16 << 20 })
	other := f.assign(wire.Assign{Steps: steps("head -c 4194304 /dev/zero > small; echo ready; while [ ! -e go ]; do sleep 0.05; done")})
	for _, kind := range []string{sandbox.None, sandbox.Bubblewrap} {
		for _, where := range []string{".", "$HOME", "$TMPDIR"} {
			k := f.assign(wire.Assign{
				Sandbox: wire.Sandbox{Kind: kind},
				Steps: steps("trap '' TERM; mkdir -p "+where+"/a; head -c 67108864 /dev/zero > "+where+"/a/big; echo written; sleep 600",
					"echo never"),
				Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"**"}, When: "always"}},
			})
			end := f.ended(k)
			require.Equal(t, "failed disk_limit disk_limit", end.Outcome+" "+end.Reason+" "+end.SignalReason, kind+where)
			require.Equal(t, "SIGKILL", end.Signal)
			require.Zero(t, end.Artifacts)
			// It may be noticed before everything is written.
			require.Regexp(t, `the job takes up (1[6-9]|[2-6]\d) MiB of disk, and may take up 16 MiB`, f.log(k))
			require.NotContains(t, f.log(k), "never")
		}
	}
	require.True(t, strings.Contains(f.log(other), "ready"))
	require.NoError(t, os.WriteFile(r.s.cfg.Folder.path(workFolder, other.name(), "work", "go"), nil, 0o600))
	require.Equal(t, "succeeded", f.ended(other).Outcome)
	r.requireNoJobs()
}
