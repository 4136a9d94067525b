//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A moment is one in the life of a run at which a program is killed: when an event was recorded, while a job runs, or while the
// code host holds up a request of which the work is done, or not yet.
type moment struct {
	name         string
	event        string
	job          bool
	method, path string
	after        bool
}

const pullRequestOpen = "a pull request is open"

var moments = []moment{
	{name: "the issue is read", method: "GET", path: "/repos/%s/issues/"},
	{name: "the commit is pushed", method: "POST", path: "/%s.git/git-receive-pack", after: true},
	{name: "the guardrails are checked", event: "run.guardrails_checked"},
	{name: "a job is requested", event: "run.job_requested"},
	{name: "a job runs", job: true},
	{name: pullRequestOpen, method: "POST", path: "/repos/%s/pulls$", after: true},
	{name: "the approval is answered", event: "run.merge_approved"},
	{name: "there is a candidate", event: "run.merge_candidate"},
	{name: "the merge is attempted", method: "PUT", path: "/repos/%s/pulls/.*/merge"},
	{name: "it is merged", method: "PUT", path: "/repos/%s/pulls/.*/merge", after: true},
	{name: "it is merged and recorded", event: "run.merged"},
}

// programsToKill are the programs, each with what kills it and starts it again.
var programsToKill = []struct {
	name string
	kill func(*workshop)
}{
	{"both svc-rest", func(w *workshop) {
		for _, r := range w.rest {
			r.process.kill()
		}
		for _, r := range w.rest {
			w.startRest(r)
		}
	}},
	{"svc-engine", func(w *workshop) { w.engine.kill(); w.startEngine() }},
	{"svc-runner", func(w *workshop) {
		for _, m := range w.machines {
			m.process.kill()
			w.startMachine(m)
		}
	}},
	{"svc-gateway", func(w *workshop) { w.gateway.kill(); w.startGateway() }},
	{"svc-codehost", func(w *workshop) { w.host.process.kill(); w.host.start() }},
	{"PostgreSQL", func(w *workshop) {
		require.NoError(w.farm.t, w.server.Kill())
		w.startPostgres()
	}},
	{"no program: run_steps is emptied", func(w *workshop) {
		require.Eventually(w.farm.t, func() bool {
			_, err := w.pool.Exec(w.farm.t.Context(), `delete from run_steps`)
			return err == nil
		}, waitLimit, 50*time.Millisecond)
		w.rest[0].process.kill() // whoever leads next sweeps
		w.startRest(w.rest[0])
	}},
}

// A strike is that a program is killed at a moment of a run.
type strike struct {
	moment  moment
	program int
	number  int
	done    bool
	struck  string // file that the job waits for, unless it is ""
}

// TestRunEndsTheSameThoughProgramsAreKilled takes a run for each strike through the loop. Each merges once, with one pull request
// and one comment, whatever was killed meanwhile. The strikes are one for each moment; if SVC_CHAOS_SECONDS is set, all those of a
// moment and a program, and fifty between the opening of a pull request and its record.
func TestRunEndsTheSameThoughProgramsAreKilled(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 2)
	var strikes []*strike
	for i, m := range moments {
		if os.Getenv("SVC_CHAOS_SECONDS") == "" {
			strikes = append(strikes, &strike{moment: m, program: i % len(programsToKill)})
			continue
		}
		for n := range programsToKill {
			strikes = append(strikes, &strike{moment: m, program: n})
		}
		if m.name == pullRequestOpen {
			for range 50 {
				strikes = append(strikes, &strike{moment: m})
			}
		}
	}
	for i, s := range strikes {
		s.number = i
	}
	for batch := range slices.Chunk(strikes, len(moments)) {
		w.strikeAll(t, batch)
	}
	requireNoGaps(t, w.deployment)
	requireSigned(t, w.deployment)
}

// strikeAll takes a run for each strike through the loop, all at once.
func (w *workshop) strikeAll(t *testing.T, strikes []*strike) {
	t.Helper()
	var runs []*loopRun
	for _, s := range strikes {
		job := "sleep 0.3; sh check.sh"
		if s.moment.job {
			s.struck = filepath.Join(t.TempDir(), "struck")
			job = fmt.Sprintf("for n in $(seq 600); do test -e %s && break; sleep 0.1; done; sh check.sh", s.struck)
		}
		p := w.newProjectAt(t, w.host, fmt.Sprintf("struck-%d", s.number), "github", requires(job))
		w.arm(p, s)
		runs = append(runs, p.queue("Say deux", patchOf("two", "deux")))
	}
	left := func() (n int) {
		for i, r := range runs {
			if !r.steps(strikes[i]) {
				n++
			}
		}
		return n
	}
	late := time.Now().Add(waitLimit)
	for left() > 0 {
		if time.Now().After(late) {
			for i, r := range runs {
				t.Logf("%+v: %v", strikes[i], r)
			}
			require.FailNow(t, "runs have not ended")
		}
		<-time.After(100 * time.Millisecond)
	}
	for i, r := range runs {
		// A request is not held up if the code host, which holds it up, was killed just then.
		require.True(t, strikes[i].done || strikes[i].moment.path != "", "%+v", strikes[i].moment)
		r.requireOneEnd(fmt.Sprintf("%s was killed when %s", programsToKill[strikes[i].program].name, strikes[i].moment.name))
	}
}

// arm makes the code host hold up the request of a strike's moment.
func (w *workshop) arm(p *project, s *strike) {
	if m := s.moment; m.path != "" {
		w.host.fail(p.t, m.method, fmt.Sprintf(m.path, p.name), hostFault{"kind": "delay", "delay": 3000, "times": 1, "after": m.after})
	}
}

// steps strikes if it is time, answers the run's question, and reports whether the run is tidied up.
func (r *loopRun) steps(s *strike) (over bool) {
	kinds := kindsOf(r.events())
	if !s.done && r.isAt(s, kinds) {
		s.done = true
		r.t.Logf("kill %s when %s", programsToKill[s.program].name, s.moment.name)
		programsToKill[s.program].kill(r.workshop)
		if s.struck != "" {
			require.NoError(r.t, os.WriteFile(s.struck, nil, 0o600))
		}
	}
	if slices.Contains(kinds, "decision.raised") && !slices.Contains(kinds, "decision.answered") {
		r.tryToApprove()
	}
	return slices.Contains(kinds, "run.tidied")
}

// isAt reports whether the moment of a strike has come, by the kinds of the run's events.
func (r *loopRun) isAt(s *strike, kinds []string) bool {
	switch m := s.moment; {
	case m.job:
		n, err := r.jobsIn("running")
		return err == nil && n > 0
	case m.path != "":
		return r.heldUp(s)
	default:
		return slices.Contains(kinds, m.event)
	}
}

// heldUp reports whether the code host has received the request of a strike's moment.
func (r *loopRun) heldUp(s *strike) bool {
	a, err := caller{}.send("GET", r.host.url+"/_test/faults", nil)
	if err != nil || a.status != http.StatusOK {
		return false
	}
	pattern := fmt.Sprintf(s.moment.path, r.name)
	list := decode[struct {
		Faults []struct {
			Match struct{ Method, Path string }
			Hits  int
		}
	}](r.t, a).Faults
	for _, f := range list {
		if f.Match.Path == pattern {
			return f.Hits > 0
		}
	}
	r.arm(r.project, s) // the code host was killed
	return false
}

// tryToApprove approves the merge, unless a program that it takes is down.
func (r *loopRun) tryToApprove() {
	a, err := r.owner.send("GET", r.api("/inbox?limit=100"), nil)
	if err != nil || a.status != http.StatusOK {
		return
	}
	for _, i := range decode[struct{ Items []item }](r.t, a).Items {
		if i.RunID == r.id {
			_, _ = r.owner.send("POST", r.api("/inbox/"+i.ID+"/answer"), // it is tried again
				map[string]string{"action": "approve_and_merge", "expectedHead": i.Subject.HeadSHA})
		}
	}
}

// requireOneEnd requires that the run merged once and left nothing, as the code host has kept it.
func (r *loopRun) requireOneEnd(what string) {
	r.t.Helper()
	kinds := kindsOf(r.events())
	for _, one := range []string{"run.started", "run.commits_pushed", "run.pull_request_opened", "run.merged", "run.tidied"} {
		require.Len(r.t, slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k != one }), 1, "%s: %s of %q", what, one, kinds)
	}
	require.Len(r.t, r.pulls(), 1, what)
	subjects := r.project.log("main")
	require.Len(r.t, subjects, 2, "%s: %q", what, subjects)
	require.Contains(r.t, subjects[0], "Say deux", what)
	var comments []struct{ Body string }
	r.host.ask(r.t, http.StatusOK, "GET", fmt.Sprintf("/repos/%s/issues/%d/comments", r.name, r.issue), nil, &comments)
	require.Len(r.t, comments, 1, what)
	require.Contains(r.t, comments[0].Body, "was merged", what)
	require.Empty(r.t, slices.DeleteFunc(r.branches(), func(b string) bool { return !strings.Contains(b, r.id) }), what)
	require.Eventually(r.t, func() bool { return r.liveJobs() == 0 }, 2*time.Second, 20*time.Millisecond, what)
}
