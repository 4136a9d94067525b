//go:build linux

package runner

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
