package runner

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

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
	require.NoError(t, os.WriteFile(r.s.cfg.Folder.Path(identity.WorkFolder, other.name(), "work", "go"), nil, 0o600))
	require.Equal(t, "succeeded", f.ended(other).Outcome)
	r.requireNoJobs()
}

// Files whose names the service refuses are named in the log, and the others are uploaded. A job
// that requires one of them fails.
func TestLeftOutArtifactsAreReported(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	r := start(t, f.enrolled())
	spec := wire.Assign{Steps: steps("echo 1 >fine; echo 2 >a:b.log; echo 3 >README; echo 4 >Readme; printf end"),
		Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"*"}, Required: true}}}
	k := f.assign(spec)
	end := f.ended(k)
	require.Equal(t, "succeeded", end.Outcome)
	require.Equal(t, 2, end.Artifacts)
	require.Equal(t, []wire.LeftOut{{Path: "Readme", Reason: "path_collision"}, {Path: "a:b.log", Reason: "path_refused"}}, end.LeftOut)
	require.Equal(t, 2, end.LeftOutCount)
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.complete }), waitLimit, 10*time.Millisecond)
	require.Equal(t, "end\n[artifact left out: \"Readme\": on some systems it would be in the place of another file]\n"+
		"[artifact left out: \"a:b.log\": its path must not have any of \\ < > : \" | ? *]\n", f.log(k))

	spec.Artifacts = []wire.Artifact{{Name: "logs", Paths: []string{"*.log"}, Required: true}}
	k = f.assign(spec)
	end = f.ended(k)
	require.Equal(t, "failed", end.Outcome)
	require.Equal(t, "artifact_missing", end.Reason)
	require.Equal(t, []string{"logs"}, end.MissingArtifacts)
	require.Contains(t, f.log(k), "[required artifacts are missing: logs]\n")
	r.requireNoJobs()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(t, f.problems)
}
