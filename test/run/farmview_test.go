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

// farmFigures are the farm's figures on the dashboard.
type farmFigures struct{ Online, Draining, Slots, Busy, Queued int }

// A farmJob is a job as the API shows it, by itself or in a list.
type farmJob struct {
	ID      string
	Stalled bool
	Log     struct{ Bytes int }
	Usage   *struct{ RSSBytes int }
}

// A farmView reads what the API shows of the farm.
type farmView struct {
	ci       caller
	rest     string
	oldETags []string // of the dashboard with earlier figures
}

// requireFigures waits until the dashboard shows figures. It requires that their ETag is answered
// with 304, and the ETags of all earlier figures with 200.
func (f *farmView) requireFigures(t *testing.T, want farmFigures) {
	t.Helper()
	var etag string
	require.Eventually(t, func() bool {
		a := f.ci.expect(t, http.StatusOK, "GET", f.rest+"/api/v1/dashboard", nil)
		etag = a.etag
		return decode[struct{ Farm farmFigures }](t, a).Farm == want && f.dashboard(t, etag) == http.StatusNotModified
	}, waitLimit, 50*time.Millisecond, "%+v", want)
	for _, old := range f.oldETags {
		require.Equal(t, http.StatusOK, f.dashboard(t, old), "%+v", want)
	}
	f.oldETags = append(f.oldETags, etag)
}

func (f *farmView) dashboard(t *testing.T, etag string) (status int) {
	t.Helper()
	a, err := f.ci.send("GET", f.rest+"/api/v1/dashboard", nil, "If-None-Match", etag)
	require.NoError(t, err)
	return a.status
}

// submitUnassignableJob submits a job that no runner can take.
func (f *farmView) submitUnassignableJob(t *testing.T) {
	t.Helper()
	f.ci.expect(t, http.StatusCreated, "POST", f.rest+"/api/v1/farm/jobs", map[string]any{
		"name": "nowhere", "requires": map[string]any{"labels": []string{"gpu=a100"}}, "sandbox": map[string]string{"kind": "none"},
		"steps": []map[string]string{{"run": "true"}},
	})
}

// job returns a job from its own page and from the list of active jobs.
func (f *farmView) job(t *testing.T, id string) (one, listed farmJob) {
	t.Helper()
	one = decode[farmJob](t, f.ci.expect(t, http.StatusOK, "GET", f.rest+"/api/v1/farm/jobs/"+id, nil))
	list := decode[struct{ Items []farmJob }](t, f.ci.expect(t, http.StatusOK, "GET", f.rest+"/api/v1/farm/jobs?status=active", nil)).Items
	i := slices.IndexFunc(list, func(j farmJob) bool { return j.ID == id })
	require.GreaterOrEqual(t, i, 0, "it is in no list")
	return one, list[i]
}

// requireUsageShown waits until a running job shows its memory, and the list the length of its log.
func (f *farmView) requireUsageShown(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		one, listed := f.job(t, id)
		return one.Usage != nil && one.Usage.RSSBytes > 0 && !one.Stalled && !listed.Stalled && listed.Log.Bytes == len("begun\n")
	}, waitLimit, 100*time.Millisecond)
}

// requireStalled waits until a job is shown as stalled, by itself and in the list.
func (f *farmView) requireStalled(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		one, listed := f.job(t, id)
		return one.Stalled && listed.Stalled
	}, waitLimit, 500*time.Millisecond, "never stalled")
}

// pauseRunner stops the runner and the supervisors of its jobs until resume is called or the test
// ends.
func pauseRunner(t *testing.T, root int) (resume func()) {
	t.Helper()
	var frozen []int
	resume = sync.OnceFunc(func() {
		for _, pid := range frozen {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(resume)
	for _, b := range processTree(root) {
		if exe, _ := os.Readlink("/proc/" + strconv.Itoa(b.pid) + "/exe"); filepath.Base(exe) == "svc-runner" {
			require.NoError(t, syscall.Kill(b.pid, syscall.SIGSTOP))
			frozen = append(frozen, b.pid)
		}
	}
	require.NotEmpty(t, frozen)
	return resume
}
