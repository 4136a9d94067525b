//go:build linux && !race

package run

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// farmFigures are what the dashboard says of the farm.
type farmFigures struct{ Online, Draining, Slots, Busy, Queued int }

// A farmJob is what jobs and lists of them say of one.
type farmJob struct {
	ID      string
	Stalled bool
	Log     struct{ Bytes int }
	Usage   *struct{ RSSBytes int }
}

// farmPages are what is told about the farm.
type farmPages struct {
	ci   caller
	rest string
	seen []string // entity tags of the dashboard, while it said something else
}

// requireFigures waits until the dashboard says so, and shows that whoever has it is told that
// nothing has changed, and whoever has what it said before is told the new figures.
func (f *farmPages) requireFigures(t *testing.T, want farmFigures) {
	t.Helper()
	var etag string
	require.Eventually(t, func() bool {
		a := f.ci.must(t, http.StatusOK, "GET", f.rest+"/api/v1/dashboard", nil)
		etag = a.etag
		return decode[struct{ Farm farmFigures }](t, a).Farm == want && f.dashboard(t, etag) == http.StatusNotModified
	}, patience, 50*time.Millisecond, "%+v", want)
	for _, old := range f.seen {
		require.Equal(t, http.StatusOK, f.dashboard(t, old), "%+v", want)
	}
	f.seen = append(f.seen, etag)
}

func (f *farmPages) dashboard(t *testing.T, etag string) (status int) {
	t.Helper()
	a, err := f.ci.send("GET", f.rest+"/api/v1/dashboard", nil, "If-None-Match", etag)
	require.NoError(t, err)
	return a.status
}

// submitNowhere asks for a job that no runner takes.
func (f *farmPages) submitNowhere(t *testing.T) {
	t.Helper()
	f.ci.must(t, http.StatusCreated, "POST", f.rest+"/api/v1/farm/jobs", map[string]any{
		"name": "nowhere", "requires": map[string]any{"labels": []string{"gpu=a100"}}, "sandbox": map[string]string{"kind": "none"},
		"steps": []map[string]string{{"run": "true"}},
	})
}

// job returns what is said of a job, by itself and in the list of those that have not ended.
func (f *farmPages) job(t *testing.T, id string) (one, listed farmJob) {
	t.Helper()
	one = decode[farmJob](t, f.ci.must(t, http.StatusOK, "GET", f.rest+"/api/v1/farm/jobs/"+id, nil))
	list := decode[struct{ Items []farmJob }](t, f.ci.must(t, http.StatusOK, "GET", f.rest+"/api/v1/farm/jobs?status=active", nil)).Items
	i := slices.IndexFunc(list, func(j farmJob) bool { return j.ID == id })
	require.GreaterOrEqual(t, i, 0, "it is in no list")
	return one, list[i]
}

// requireLive waits until a running job says what it takes, and the list how much it has written.
func (f *farmPages) requireLive(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		one, listed := f.job(t, id)
		return one.Usage != nil && one.Usage.RSSBytes > 0 && !one.Stalled && !listed.Stalled && listed.Log.Bytes == len("begun\n")
	}, patience, 100*time.Millisecond)
}

// requireStalled waits until a job is said to be so everywhere.
func (f *farmPages) requireStalled(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		one, listed := f.job(t, id)
		return one.Stalled && listed.Stalled
	}, patience, 500*time.Millisecond, "never stalled")
}

// freezeRunner stops the runner, and the processes of its jobs that are its program, until thaw is
// called, or the test ends.
func freezeRunner(t *testing.T, root int) (thaw func()) {
	t.Helper()
	var frozen []int
	thaw = sync.OnceFunc(func() {
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(thaw)
	for _, b := range family(root) {
		if exe, _ := os.Readlink("/proc/" + strconv.Itoa(b.pid) + "/exe"); filepath.Base(exe) == "svc-runner" {
			require.NoError(t, syscall.Kill(b.pid, syscall.SIGSTOP))
			frozen = append(frozen, b.pid)
		}
	}
	require.NotEmpty(t, frozen)
	return thaw
}
