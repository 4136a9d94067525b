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

// A job is what the farm answers of one.
type job struct {
	ID, State string
	Runner    *struct{ Name string }
}

// submit asks for a job of one step, and waits until it runs.
func submit(t *testing.T, ci caller, rest, run string) job {
	t.Helper()
	a := ci.must(t, http.StatusCreated, "POST", rest+"/api/v1/farm/jobs", map[string]any{
		"name": "sleeper", "sandbox": map[string]string{"kind": "none"}, "steps": []map[string]string{{"name": "sleep", "run": run}},
	})
	j := decode[struct{ Job job }](t, a).Job
	return awaitJob(t, ci, rest, j.ID, "running")
}

func awaitJob(t *testing.T, ci caller, rest, id, state string) (j job) {
	t.Helper()
	require.Eventually(t, func() bool {
		j = decode[job](t, ci.must(t, http.StatusOK, "GET", rest+"/api/v1/farm/jobs/"+id, nil))
		return j.State == state
	}, patience, 50*time.Millisecond, "the job is never %s", state)
	return j
}

// TestCtrlCEndsWhatRunsOnTheFarm also where a job has left its session and ignores being
// asked; so does kill -9 of svc. The next start finds the enrolment.
func TestCtrlCEndsWhatRunsOnTheFarm(t *testing.T) {
	t.Parallel()
	s := seededSite(t)
	s.environ = append(s.environ, "SVC_GATEWAY_ADDR="+address.Free(t))
	svc := s.start().until(running)
	d := s.dev()
	ci := byToken(d.account(t, "ci-bot").Token)
	farm := farmPages{ci: ci, rest: d.RestURL}
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2})
	j := s.submitStubborn(t, ci, d.RestURL)
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2, Busy: 1})
	farm.submitNowhere(t)
	farm.requireFigures(t, farmFigures{Online: 1, Slots: 2, Busy: 1, Queued: 1})
	farm.requireLive(t, j.ID)
	thaw := freezeRunner(t, svc.pid())
	farm.requireStalled(t, j.ID)
	farm.requireFigures(t, farmFigures{Busy: 1, Queued: 1})
	thaw()
	began := time.Now()
	s.stop(svc) // which looks that nothing is left behind
	require.Less(t, time.Since(began), time.Minute)

	svc = s.start().until(running)
	require.NotContains(t, svc.out.String(), "enrolling this machine", "it is enrolled")
	d = s.dev()
	ci.must(t, http.StatusAccepted, "POST", d.RestURL+"/api/v1/farm/jobs", map[string]string{"action": "cancel", "jobId": j.ID})
	awaitJob(t, ci, d.RestURL, j.ID, "cancelled")

	s.submitStubborn(t, ci, d.RestURL)
	there := family(svc.pid())
	svc.kill()
	requireGone(t, there, s.data)
}

// submitStubborn returns when everything that the job starts has begun.
func (s *site) submitStubborn(t *testing.T, ci caller, rest string) job {
	t.Helper()
	ready := filepath.Join(s.home, "ready")
	require.NoError(t, os.RemoveAll(ready))
	j := submit(t, ci, rest, `echo begun; trap "" TERM; `+
		`setsid sh -c 'trap "" TERM; echo $$ >"`+ready+`"; sleep 86399; sleep 86399' & sleep 86399; sleep 86399`)
	require.Equal(t, "make-run", j.Runner.Name)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ready)
		return err == nil && strings.HasSuffix(string(text), "\n")
	}, patience, 10*time.Millisecond)
	return j
}
