package runner

import (
	"bytes"
	"math"
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
	usage := func(limit int64) int64 {
		t.Helper()
		used, tooDeep := diskUsage(t.Context(), limit, dir, filepath.Join(dir, "none"))
		require.False(t, tooDeep)
		return used
	}
	empty := usage(math.MaxInt64)
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
	used := usage(math.MaxInt64) - empty
	require.GreaterOrEqual(t, used, int64(5<<20))
	require.Less(t, used, int64(6<<20))
	require.Less(t, usage(1<<20), int64(5<<20), "no more is measured once it exceeds the limit")
	require.Greater(t, usage(1<<20), int64(1<<20))
}

// A job that nests folders very deep is killed. They cost neither the runner's memory nor its time, and
// are removed.
func TestJobIsKilledOverDepth(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), func(c *Config) { c.MaxJobDisk = 1 << 30 })
	k := f.assign(wire.Assign{
		Steps:     steps("trap '' TERM; i=0; while [ $i -lt 400 ]; do mkdir d; cd d; i=$((i+1)); done; echo nested; sleep 600"),
		Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"**"}, When: "always"}},
	})
	end := f.ended(k)
	require.Equal(t, "failed disk_limit disk_limit", end.Outcome+" "+end.Reason+" "+end.SignalReason)
	require.Contains(t, f.log(k), "the job has folders nested more than 256 deep")
	r.requireNoJobs()
}

func TestDeepFoldersAreNoArtifacts(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	deep := filepath.Join(work, strings.Repeat("d/", maxDepth+1))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(deep, "file"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(work, "file"), nil, 0o600))
	want := []wire.Artifact{{Name: "all", Paths: []string{"**"}}}
	m, _, leftOut, err := gather(t.Context(), work, work, filepath.Join(t.TempDir(), "files"), want, 1<<20)
	require.NoError(t, err)
	require.Len(t, m.Files, 1)
	require.Equal(t, 1, leftOut.count)
	require.Equal(t, wire.LeftOutDeep, leftOut.files[0].Reason)
}

// A job that fills the disk is killed and fails, whatever it fills. Another job at the same time is
// not concerned.
func TestJobIsKilledOverDiskLimit(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled(), func(c *Config) { c.MaxJobDisk = 16 << 20 })
	other := f.assign(wire.Assign{Steps: steps("head -c 4194304 /dev/zero > small; echo ready; while [ ! -e go ]; do sleep 0.05; done")})
	for _, kind := range []string{sandbox.None, sandbox.Bubblewrap} {
		folders := []string{".", "$HOME", "$TMPDIR"}
		if kind == sandbox.Bubblewrap {
			folders = append(folders, "/dev/shm")
		}
		for _, where := range folders {
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
