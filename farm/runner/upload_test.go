//go:build linux

package runner

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/identity"
	"svc/farm/wire"
)

// An interrupted upload is resumed, also by a new supervisor. A final refusal ends it.
func TestUploadsAreResumed(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	var lengths []int64
	f.uploading = func(n int, w http.ResponseWriter, r *http.Request) bool {
		lengths = append(lengths, r.ContentLength)
		switch n {
		case 1:
			refuseWith(w, 503, "artifact_store_unavailable")
		case 3: // breaks off in the middle of the first chunk
			_, _ = r.Body.Read(make([]byte, 1<<20))
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		default:
			return false
		}
		return true
	}
	r := start(t, f.enrolled())
	spec := wire.Assign{Steps: steps("head -c 20000000 /dev/urandom >big; : >empty; ln -s /etc/passwd link"),
		Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"*"}}}}
	k := f.assign(spec)
	require.Equal(t, 2, f.ended(k).Artifacts)
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.complete }), waitLimit, 10*time.Millisecond)
	r.requireNoJobs()
	f.mu.Lock()
	require.Empty(t, f.problems)
	require.Equal(t, 5, f.uploads)
	require.Less(t, lengths[1], int64(2000), "only the manifest")
	require.Greater(t, lengths[2], int64(20_000_000), "all that is missing, with its length")
	f.uploads, f.uploading = 0, func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		refuseWith(w, 413, "artifact_too_large")
		return true
	}
	f.mu.Unlock()
	f.ended(f.assign(spec))
	r.requireNoJobs()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, 1, f.uploads, "what is too large is never sent again")
}

// blockUploads makes uploads wait until proceed is called. The first one closes begun.
func (f *farm) blockUploads() (begun chan struct{}, proceed func()) {
	begun, blocked := make(chan struct{}), make(chan struct{})
	proceed = sync.OnceFunc(func() { close(blocked) })
	f.t.Cleanup(proceed)
	began := sync.OnceFunc(func() { close(begun) })
	f.uploading = func(int, http.ResponseWriter, *http.Request) bool {
		began()
		<-blocked
		return false
	}
	return begun, proceed
}

var withArtifact = wire.Assign{Steps: steps("echo content >file"), Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"*"}}}}

func impatient(c *Config) { c.ackTimeout = time.Millisecond }

// A runner that is told to stop ends once the artifacts are uploaded.
func TestStopWaitsForUploads(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	begun, proceed := f.blockUploads()
	r := start(t, f.enrolled(), impatient)
	k := f.assign(withArtifact)
	<-begun
	r.stop <- syscall.SIGTERM
	require.Eventually(t, r.s.draining, waitLimit, time.Millisecond)
	f.mu.Lock()
	beats := len(f.beats)
	f.mu.Unlock()
	require.Eventually(t, f.check(func() bool { return len(f.beats) > beats || len(r.done) > 0 }), waitLimit, time.Millisecond)
	proceed()
	require.NoError(t, r.wait())
	require.True(t, f.with(k, func(j *farmJob) bool { return j.complete })())
	r.requireNoJobs()
}

// A second signal ends the wait for uploads. What is left is not uninstalled unless that is forced.
func TestSecondSignalLeavesUploads(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	begun, _ := f.blockUploads()
	r := start(t, f.enrolled(), impatient)
	k := f.assign(withArtifact)
	<-begun
	r.stop <- syscall.SIGTERM
	r.stop <- syscall.SIGTERM
	require.NoError(t, r.wait())
	require.Contains(t, r.log.String(), "the next start sends it\" job="+k.name())
	folder := r.s.cfg.Folder
	_, err := folder.Uninstall(t.Context(), false)
	require.ErrorContains(t, err, k.name())
	require.False(t, f.deregistered)
	require.FileExists(t, folder.Path(identity.IdentityFile))
	revokeErr, err := folder.Uninstall(t.Context(), true)
	require.NoError(t, errors.Join(revokeErr, err))
	require.NoDirExists(t, string(folder))
}

// The service refuses the uploads of two jobs for an hour, since the workspace has stored too much today.
// Another job's upload does not wait for them, and they do not ask again before that.
func TestRefusedUploadsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	refused := map[string]int{}
	f.uploading = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		job := r.PathValue("id")
		if _, ok := refused[job]; !ok && len(refused) == uploadsAtOnce {
			return false
		}
		refused[job]++
		w.Header().Set("Retry-After", "3600")
		refuseWith(w, 429, "artifact_volume_exceeded")
		return true
	}
	start(t, f.enrolled(), reconnectAtOnce)
	spec := wire.Assign{Steps: steps("echo kept >kept"), Artifacts: []wire.Artifact{{Name: "all", Paths: []string{"*"}}}}
	for range uploadsAtOnce {
		f.ended(f.assign(spec))
	}
	require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(refused) == uploadsAtOnce }, waitLimit, time.Millisecond)
	k := f.assign(spec)
	f.ended(k)
	require.Eventually(t, f.with(k, func(j *farmJob) bool { return j.complete }), waitLimit, time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range refused {
		require.Equal(t, 1, n)
	}
}

// A power cut loses the report of a job's end, which is sent before it is durable. If the service has it, the
// artifacts are uploaded, which were durable before. Otherwise the job ends without artifacts.
func TestArtifactsAfterPowerCut(t *testing.T) {
	t.Parallel()
	for name, received := range map[string]bool{"the service has the end": true, "the service lacks the end": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			begun, _ := f.blockUploads()
			r := start(t, f.enrolled())
			k := f.assign(withArtifact)
			require.Equal(t, 1, f.ended(k).Artifacts)
			<-begun
			r.cancel()
			require.NoError(t, r.wait())
			folder := r.s.cfg.Folder
			segments, err := filepath.Glob(folder.Path(identity.SpoolFolder, k.name(), "*.log"))
			require.NoError(t, err)
			require.Len(t, segments, 1)
			info, err := os.Stat(segments[0])
			require.NoError(t, err)
			require.NoError(t, os.Truncate(segments[0], info.Size()-1))
			f.mu.Lock()
			f.uploads, f.uploading = 0, nil
			if j := f.jobs[k]; !received {
				j.events, j.last = j.events[:len(j.events)-1], j.last-1
			}
			f.mu.Unlock()
			start(t, folder)
			require.Eventually(t, func() bool {
				_, err := os.Stat(folder.Path(identity.SpoolFolder, k.name()))
				return errors.Is(err, os.ErrNotExist)
			}, waitLimit, time.Millisecond)
			end := f.ended(k)
			f.mu.Lock()
			defer f.mu.Unlock()
			require.Equal(t, received, f.jobs[k].complete)
			if !received {
				require.Equal(t, "agent_restarted", end.Reason)
				require.Zero(t, end.Artifacts)
				require.Zero(t, f.uploads)
			}
		})
	}
}
