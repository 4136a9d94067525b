//go:build linux && !race

package run

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopEverywhere cancels runs in each stage in which one can be held. Nothing is left of any.
func stopEverywhere(t *testing.T, w *workshop) {
	gate := w.newGate(t)
	p := w.newProject(t, "github", requires("grep -q deux words.txt || "+gate.waits()))
	byCommand := w.newProjectAt(t, w.host, "by-command", "github", settings{}.byCommand(gate.waits()))
	slow := hostFault{"kind": "delay", "delay": 1500, "times": 1}
	for name, stop := range map[string]func() *loopRun{
		"analyze": func() *loopRun {
			p.host.fail(t, "GET", "/repos/"+p.name+"/issues/", slow)
			r := p.queue("Say deux", patchOf("two", "deux"))
			r.await("run.started")
			return r
		},
		"implementing": func() *loopRun {
			r := byCommand.queue("Do it", "Please.")
			r.awaitRunning("implement")
			return r
		},
		"build farm": func() *loopRun {
			r := p.queue("Say zwei", patchOf("two", "zwei"))
			r.awaitRunning("test")
			return r
		},
		"merge": func() *loopRun {
			r := p.queue("Say deux", patchOf("two", "deux"))
			r.awaitItem("merge_approval")
			return r
		},
	} {
		r := stop()
		r.cancel()
		r.await("run.tidied")
		require.Eventually(t, func() bool { return r.liveJobs() == 0 }, waitLimit, 20*time.Millisecond, name)
		ended := r.at("run.cancelled")
		require.Less(t, time.Since(ended), 20*time.Second, name)
		for _, pull := range r.pulls() {
			require.Equal(t, "closed", pull.State, name)
		}
		again := r.queueIssue(map[string]any{"repoId": r.project.id, "issueNumber": r.issue}) // its issue is free
		again.cancel()
		again.await("run.cancelled")
	}
	require.Eventually(t, func() bool { return len(p.branches()) == 1 }, waitLimit, 100*time.Millisecond, "%q", p.branches())
	require.Equal(t, []string{"Change 2 files"}, p.log("main"))
	stopWhileMerging(t, p)
}

// stopWhileMerging cancels a run whose merge the code host is carrying out. It stays merged.
func stopWhileMerging(t *testing.T, p *project) {
	p.host.fail(t, "PUT", "/repos/"+p.name+"/pulls/.*/merge", hostFault{"kind": "delay", "delay": 2000, "times": 1})
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.approve()
	r.await("run.merge_attempted")
	r.cancel()
	r.await("run.stop_requested")
	r.await("run.merged")
	r.await("run.tidied")
	require.Equal(t, "merged", r.view().Run.Status)
}

// awaitRunning waits until a job of the run runs.
func (r *loopRun) awaitRunning(name string) {
	r.t.Helper()
	r.await("run.job_requested")
	require.Eventually(r.t, func() bool {
		for _, id := range r.jobs(name) {
			if decode[job](r.t, r.owner.expect(r.t, http.StatusOK, "GET", r.api("/farm/jobs/"+id), nil)).State == "running" {
				return true
			}
		}
		return false
	}, waitLimit, 50*time.Millisecond)
}

// pauseAndResume pauses a repository while a run waits for an answer, and has it go on.
func pauseAndResume(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{})
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.awaitItem("merge_approval")
	p.owner.expect(t, http.StatusOK, "POST", p.api("/repos/"+p.id+"/pause"), map[string]string{"reason": "A freeze."})
	r.approve()
	require.Equal(t, "A freeze.", r.awaitWait("paused"))
	a := p.owner.expect(t, http.StatusConflict, "POST", p.api("/backlog/queue"),
		map[string]any{"repoId": p.id, "issueNumber": p.issue("Another", "")})
	require.Equal(t, "repo_paused", a.code())
	p.owner.expect(t, http.StatusOK, "POST", p.api("/repos/"+p.id+"/resume"), nil)
	r.await("run.tidied")
	require.Equal(t, "merged", r.view().Run.Status)
	require.Nil(t, r.view().Run.Wait)
}

// retryWaits tries a run again whose pull request the code host does not close yet.
func retryWaits(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{})
	first := p.queue("Say deux", patchOf("two", "deux"))
	first.awaitItem("merge_approval")
	p.host.fail(t, "PATCH", "/repos/"+p.name+"/pulls/", hostFault{"kind": "status", "status": 503, "times": 3})
	a := p.owner.expect(t, http.StatusConflict, "POST", p.api("/runs/"+first.id+"/retry"), nil)
	require.Equal(t, "run_active", a.code())
	first.cancel()
	a = p.owner.expect(t, http.StatusCreated, "POST", p.api("/runs/"+first.id+"/retry"), nil)
	second := &loopRun{p, decode[struct{ ID string }](t, a).ID, first.issue}
	require.Equal(t, "An earlier run of this issue is being tidied up.", second.await("run.waiting").text("detail"))
	first.await("run.tidied")
	second.await("run.started")
	require.False(t, second.at("run.started").Before(first.at("run.tidied")))
	second.approve()
	second.await("run.tidied")
	require.Equal(t, 2, p.host.counts(t, p.name).Pulls)
	require.Equal(t, 1, p.host.counts(t, p.name).PullsClosed)
	require.Equal(t, 1, strings.Count(strings.Join(p.log("main"), "\n"), "Say deux"))
}
