//go:build linux && !race

package run

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
// asked. The next start finds the enrolment and goes on with the jobs.
func TestCtrlCEndsWhatRunsOnTheFarm(t *testing.T) {
	t.Parallel()
	s := seededSite(t)
	s.environ = append(s.environ, "SVC_GATEWAY_ADDR="+free(t))
	svc := s.start().until(running)
	d := s.dev()
	ci := byToken(d.account(t, "ci-bot").Token)
	ready := s.file("ready")
	j := submit(t, ci, d.RestURL, `trap "" TERM; setsid sh -c 'trap "" TERM; echo $$ >"`+ready+`"; sleep 86399; sleep 86399' & sleep 86399; sleep 86399`)
	require.Equal(t, "make-run", j.Runner.Name)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ready)
		return err == nil && strings.HasSuffix(string(text), "\n")
	}, patience, 10*time.Millisecond)
	began := time.Now()
	s.stop(svc) // which looks that nothing is left behind
	require.Less(t, time.Since(began), time.Minute)

	svc = s.start().until(running)
	require.NotContains(t, svc.out.String(), "enrolling this machine", "it is enrolled")
	d = s.dev()
	ci.must(t, http.StatusAccepted, "POST", d.RestURL+"/api/v1/farm/jobs", map[string]string{"action": "cancel", "jobId": j.ID})
	awaitJob(t, ci, d.RestURL, j.ID, "cancelled")
	s.stop(svc)
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}
