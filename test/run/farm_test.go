//go:build linux && !race

package run

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/test/address"
)

// A job is a job as the API shows it.
type job struct {
	ID, State string
	Runner    *struct{ Name string }
}

// submitJob submits a job of one step and waits until it runs.
func submitJob(t *testing.T, ci caller, rest, run string) job {
	t.Helper()
	a := ci.expect(t, http.StatusCreated, "POST", rest+"/api/v1/farm/jobs", map[string]any{
		"name": "sleeper", "sandbox": map[string]string{"kind": "none"}, "steps": []map[string]string{{"name": "sleep", "run": run}},
	})
	j := decode[struct{ Job job }](t, a).Job
	return awaitJob(t, ci, rest, j.ID, "running")
}

// awaitJob waits until a job is in a state.
func awaitJob(t *testing.T, ci caller, rest, id, state string) (j job) {
	t.Helper()
	require.Eventually(t, func() bool {
		j = decode[job](t, ci.expect(t, http.StatusOK, "GET", rest+"/api/v1/farm/jobs/"+id, nil))
		return j.State == state
	}, waitLimit, 50*time.Millisecond, "the job is never %s", state)
	return j
}

// TestCtrlCKillsRunningJobs runs a job that has left its session and ignores SIGTERM. Ctrl-C ends it, and so
// does SIGKILL to svc. The next start keeps the enrollment.
func TestCtrlCKillsRunningJobs(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	s.environ = append(s.environ, "SVC_GATEWAY_ADDR="+address.Free(t))
	svc := s.start().waitForOutput(runningBanner)
	d := s.dev()
	ci := byToken(d.account(t, "ci-bot").Token)
	farm := farmView{ci: ci, rest: d.RestURL}
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2})
	j := s.submitUnstoppableJob(t, ci, d.RestURL)
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2, Busy: 1})
	farm.submitUnassignableJob(t)
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2, Busy: 1, Queued: 1})
	farm.requireUsageShown(t, j.ID)
	resume := pauseRunner(t, svc.pid())
	farm.requireStalled(t, j.ID)
	farm.requireFigures(t, farmFigures{Busy: 1, Queued: 1})
	resume()
	began := time.Now()
	s.stop(svc) // requires that no process is left
	require.Less(t, time.Since(began), time.Minute)

	svc = s.start().waitForOutput(runningBanner)
	require.NotContains(t, svc.out.String(), "enrolling this machine", "it is enrolled")
	d = s.dev()
	ci.expect(t, http.StatusAccepted, "POST", d.RestURL+"/api/v1/farm/jobs", map[string]string{"action": "cancel", "jobId": j.ID})
	awaitJob(t, ci, d.RestURL, j.ID, "cancelled")

	s.submitUnstoppableJob(t, ci, d.RestURL)
	there := processTree(svc.pid())
	svc.kill()
	requireGone(t, there, s.data)
}

// submitUnstoppableJob submits a job that ignores SIGTERM, and returns once all its processes have started.
func (s *installation) submitUnstoppableJob(t *testing.T, ci caller, rest string) job {
	t.Helper()
	ready := filepath.Join(s.home, "ready")
	require.NoError(t, os.RemoveAll(ready))
	j := submitJob(t, ci, rest, `echo begun; trap "" TERM; `+
		`setsid sh -c 'trap "" TERM; echo $$ >"`+ready+`"; sleep 86399; sleep 86399' & sleep 86399; sleep 86399`)
	require.Equal(t, "make-run", j.Runner.Name)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ready)
		return err == nil && strings.HasSuffix(string(text), "\n")
	}, waitLimit, 10*time.Millisecond)
	return j
}
