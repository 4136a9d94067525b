//go:build linux && !race

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requirements has a test for each of the complaints about other tools that needs all programs to be shown.
func requirements(t *testing.T, w *workshop) {
	w.runAll(t, map[string]func(*testing.T, *workshop){
		"R2 one pull request of each run":            onePullRequest("github"),
		"R2 one pull request of each run at Gitea":   onePullRequest("gitea"),
		"R5 an exit status of 0 is no success":       silentImplementer,
		"an outcome that is too large":               largeOutcome,
		"R13 refused workflow files are named":       refusedWorkflow,
		"R14 protected changes are asked for":        protectedChange,
		"R16 a merge commit voids the approval":      mergeCommitByPerson,
		"R20 R25 a host that waits, and lies":        lyingHost,
		"R22 results count for one commit":           resultsOfAnotherHead,
		"R24 a conflicting run leaves the lane":      conflictInLane,
		"R33 R34 a label of who may write queues":    labelsQueue,
		"R38 hooks are hints":                        hooksAreHints,
		"R35 failed rounds count in the budget":      budgetUsed,
		"R36 an unknown cost uses the budget":        unknownCost,
		"R41 no more runs than people can look at":   mostActive,
		"stop in every stage":                        stopEverywhere,
		"pause and resume":                           pauseAndResume,
		"a retry waits for the end of the first run": retryWaits,
		"a credential that is revoked":               revokedCredential,
		"a repository that is disconnected":          disconnectedRepository,
		"a member who queued and is removed":         removedMember,
	})
}

// onePullRequest has the code host fail in the middle of opening pull requests.
func onePullRequest(kind string) func(*testing.T, *workshop) {
	return func(t *testing.T, w *workshop) { onePullRequestAt(t, w.newProject(t, kind, settings{"maxActive": 20})) }
}

func onePullRequestAt(t *testing.T, p *project) {
	t.Helper()
	faults := []hostFault{
		{"kind": "twice"}, {"kind": "cut"}, {"kind": "cut", "after": true}, {"kind": "status", "status": 502, "after": true},
		{"kind": "status", "status": 500}, {"kind": "body", "body": "{", "after": true}, {"kind": "rate_limit", "retryAfter": 1},
		{"kind": "twice"}, {"kind": "cut", "after": true}, {"kind": "body", "body": "<html>"},
	}
	for _, f := range faults {
		f["times"] = 1
		p.host.fail(t, "POST", "/repos/"+p.name+"/pulls$", f)
	}
	var runs []*loopRun
	for n := range faults {
		runs = append(runs, p.queue(fmt.Sprintf("Add file %d", n), newFilePatch(fmt.Sprintf("new%d.txt", n))))
	}
	for _, r := range runs {
		r.await("decision.raised")
		require.Len(t, r.pulls(), 1)
	}
	require.Equal(t, len(runs), p.host.counts(t, p.name).Pulls)
	for _, r := range runs {
		r.cancel()
	}
	for _, r := range runs {
		r.await("run.tidied")
	}
	e := p.host.counts(t, p.name)
	require.Equal(t, len(runs), e.Pulls)
	require.Equal(t, len(runs), e.PullsClosed)
	require.Equal(t, len(runs), e.Comments)
	require.Equal(t, []string{"main"}, p.branches())
}

// lyingHost has a Gitea that has not checked the pull request yet, and then merges without the change.
func lyingHost(t *testing.T, w *workshop) {
	p := w.newProject(t, "gitea", requires("sh check.sh"))
	merges := "/api/v1/repos/" + p.name + "/pulls/.*/merge$"
	p.host.fail(t, "POST", merges, hostFault{"kind": "status", "status": 405, "message": "Please try again later", "times": 1})
	p.host.fail(t, "POST", merges, hostFault{"kind": "lie", "times": 1})
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.approve()
	r.await("run.tidied")
	require.True(t, r.view().Merge.Untested, "the tree is not what was approved")
	require.Equal(t, 1, p.host.counts(t, p.name).Merges)
	require.Equal(t, strings.TrimSpace(words), p.show("main", "words.txt"))
}

// silentImplementer is one that ends well without having said so.
func silentImplementer(t *testing.T, w *workshop) {
	s := settings{"rounds": 2}.byCommand("echo change >>words.txt; echo I was cut off")
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	failed := r.await("run.failed")
	require.Equal(t, "rounds", failed.text("code"))
	require.Contains(t, failed.text("reason"), "ended without saying what it did")
	require.Contains(t, failed.text("reason"), "I was cut off")
	require.Equal(t, runEnd{failed.text("reason"), "rounds"}, *r.view().End)
	require.Len(t, r.jobs("implement"), 2)
	r.await("run.tidied")
	require.Zero(t, r.host.counts(t, r.name).Pulls)
}

// largeOutcome is an implementer's that says more than anybody reads.
func largeOutcome(t *testing.T, w *workshop) {
	s := settings{"rounds": 1}.byCommand(`head -c 300000 /dev/zero | tr '\0' x >"$SVC_OUT/outcome.json"`)
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	require.Contains(t, r.await("run.failed").text("reason"), "larger than 256 KiB")
}

// refusedWorkflow pushes what the token may not.
func refusedWorkflow(t *testing.T, w *workshop) {
	host := newCodeHost(t, "SVC_CODEHOST_WORKFLOWS=false")
	p := w.newProjectAt(t, host, "workflows", "github", settings{})
	r := p.queue("Add a workflow", newFilePatch(".github/workflows/ci.yml"))
	failed := r.await("run.failed")
	require.Equal(t, "host_refused", failed.text("code"))
	require.Contains(t, failed.text("reason"), ".github/workflows/ci.yml")
	require.Contains(t, failed.text("reason"), "`workflow` scope")
	other := p.queue("Another one", patchOf("two", "deux")) // goes on
	other.await("decision.raised")
	other.cancel()
}

// protectedChange changes protected files twice.
func protectedChange(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{"protectedPaths": []string{"deploy/**"}, "mayAllowOnce": true})
	r := p.queue("Deploy it", newFilePatch("deploy/prod.sh"))
	i := r.awaitItem("protected_path_allow_once")
	require.Equal(t, "blocked", i.Evidence.Guardrails)
	require.Equal(t, "deploy/prod.sh", i.Evidence.Findings[0].Path)
	require.Equal(t, "deploy/**", i.Evidence.Findings[0].Rule)
	r.answer("protected_path_allow_once", "allow_once")
	r.awaitItem("merge_approval")
	r.pushByPerson(map[string]string{"deploy/prod.sh": "rm -rf /\n"}) // the watcher sees it
	require.Equal(t, "person", r.await("run.commits_pushed", 2).text("by"))
	require.NotEqual(t, i.ID, r.awaitItem("protected_path_allow_once").ID)
	r.answer("protected_path_allow_once", "deny")
	r.await("run.tidied")
	require.Equal(t, []string{"Change 2 files"}, p.log("main"))
}

// mergeCommitByPerson merges another branch into that of an approved run.
func mergeCommitByPerson(t *testing.T, w *workshop) {
	gate := w.newGate(t)
	p := w.newProject(t, "github", requires("test ! -e slow.txt || "+gate.waits()))
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.awaitItem("merge_approval")
	p.clone.push("main", map[string]string{"slow.txt": "The base has moved.\n"}) // so what would be merged is tested again
	r.approve()
	require.Equal(t, "lane", r.await("run.job_requested", 2).text("purpose"))
	p.clone.git("fetch", "-q", "origin")
	p.clone.git("checkout", "-q", "origin/run/"+r.id)
	p.clone.git("merge", "-q", "--no-ff", "--no-commit", "origin/main")
	head := p.clone.push("run/"+r.id, map[string]string{"evil.txt": "Nobody has seen this.\n"})
	gate.open()
	require.Equal(t, head, r.await("run.commits_pushed", 2).text("head"))
	r.await("run.merge_approval_voided")
	require.Equal(t, head, r.awaitItem("merge_approval").Subject.HeadSHA)
	require.Equal(t, []string{"Change 1 files", "Change 2 files"}, p.log("main"))
	r.cancel()
}

// resultsOfAnotherHead pushes while a required job runs.
func resultsOfAnotherHead(t *testing.T, w *workshop) {
	gate := w.newGate(t)
	p := w.newProject(t, "github", requires("grep -q person words.txt || "+gate.waits()))
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.await("run.job_requested")
	head := r.pushByPerson(map[string]string{"words.txt": "one\nperson\nthree\n"})
	r.look()
	r.await("run.commits_pushed", 2)
	require.Equal(t, head, r.await("run.job_requested", 2).text("head"))
	gate.open()
	r.await("run.job_settled", 2)
	require.Equal(t, head, r.awaitItem("merge_approval").Subject.HeadSHA)
	r.approve()
	r.await("run.merged")
	require.Equal(t, "one\nperson\nthree", p.show("main", "words.txt"))
}

// conflictInLane approves three runs, of which the second conflicts with the first.
func conflictInLane(t *testing.T, w *workshop) {
	gate := w.newGate(t)
	p := w.newProject(t, "github", requires("test ! -e slow.txt || "+gate.waits()))
	first := p.queue("Say deux", patchOf("two", "deux"))
	second := p.queue("Say zwei", patchOf("two", "zwei"))
	third := p.queue("Add a file", newFilePatch("third.txt"))
	for _, r := range []*loopRun{first, second, third} {
		r.awaitItem("merge_approval")
	}
	p.clone.push("main", map[string]string{"slow.txt": "The base has moved.\n"})
	first.approve()
	first.await("run.lane_entered")
	second.approve()
	require.Equal(t, "lane", second.await("run.waiting").text("code"))
	third.approve()
	third.await("run.waiting")
	gate.open()
	first.await("run.merged")
	failed := second.await("run.stage_failed")
	require.Contains(t, failed.text("reason"), "conflicts with main in words.txt")
	second.await("run.failed") // the patch is all that there is
	third.await("run.tidied")
	first.await("run.tidied")
	left, entered := second.at("run.stage_failed"), third.at("run.lane_entered")
	require.Less(t, entered.Sub(left), 5*time.Second, "the next one begins at once")
	require.Equal(t, "one\ndeux\nthree", p.show("main", "words.txt"))
	require.Equal(t, []string{"main"}, without(p.branches(), "run/"+second.id))
}

// budgetUsed spends the budget in a round that fails.
func budgetUsed(t *testing.T, w *workshop) {
	s := requires("false").byCommand(`date +%N >words.txt
		echo '{"status":"done","summary":"So.","cost":{"cents":40}}' >"$SVC_OUT/outcome.json"`)
	s["cents"], s["rounds"] = 50, 9
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	failed := r.await("run.failed")
	require.Equal(t, "budget", failed.text("code"))
	require.Len(t, r.jobs("implement"), 2)
	r.await("run.tidied")
	require.GreaterOrEqual(t, r.view().Resources.CostCents, int64(80))
}

// unknownCost does not say what a round cost.
func unknownCost(t *testing.T, w *workshop) {
	s := requires("false").byCommand(`date +%N >words.txt; echo '{"status":"done","summary":"So."}' >"$SVC_OUT/outcome.json"`)
	s["cents"], s["rounds"] = 50, 9
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	failed := r.await("run.failed")
	require.Equal(t, "budget", failed.text("code"))
	require.Contains(t, failed.text("reason"), "Nobody knows what the implementer cost")
	require.Len(t, r.jobs("implement"), 1)
	require.Equal(t, true, r.await("run.cost_recorded", 2)["unknown"])
}

// mostActive queues more issues than people look at.
func mostActive(t *testing.T, w *workshop) {
	const queued, active = 20, 3
	p := w.newProject(t, "github", settings{"maxActive": active})
	var runs []*loopRun
	for n := range queued {
		runs = append(runs, p.queue(fmt.Sprintf("Add file %d", n), newFilePatch(fmt.Sprintf("new%d.txt", n))))
	}
	var waiting []*loopRun
	require.Eventually(t, func() bool {
		asked := 0
		waiting = nil
		for _, r := range runs {
			switch v := r.view().Run; {
			case v.Status == "awaiting_approval":
				asked++
			case v.Status == "queued" && v.Wait != nil && v.Wait.Code == "slot" && strings.Contains(v.Wait.Detail, "All 3 places"):
				waiting = append(waiting, r)
			}
		}
		return asked == active && len(waiting) == queued-active
	}, waitLimit, 100*time.Millisecond)
	for _, r := range runs { // a place that is free is taken by the run that has waited longest
		if r.view().Run.Status == "awaiting_approval" {
			r.cancel()
			break
		}
	}
	started := 0
	require.Eventually(t, func() bool {
		started = 0
		for _, r := range waiting {
			if r.view().Run.Status != "queued" {
				started++
			}
		}
		return started > 0
	}, waitLimit, 100*time.Millisecond)
	require.Equal(t, 1, started)
	for _, r := range runs {
		if r.view().Run.Status != "cancelled" {
			r.cancel()
		}
	}
}

// newFilePatch returns the body of an issue whose patch adds a file.
func newFilePatch(path string) string {
	return fmt.Sprintf("Please.\n\n```diff\ndiff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n"+
		"@@ -0,0 +1 @@\n+hello\n```\n", path)
}

// A gate holds jobs up until it is open.
type gate struct {
	t    *testing.T
	file string
}

func (w *workshop) newGate(t *testing.T) gate {
	t.Helper()
	return gate{t, filepath.Join(t.TempDir(), "open")}
}

// waits is the part of a job's script that waits.
func (g gate) waits() string { return "until test -e '" + g.file + "'; do sleep 0.05; done" }

func (g gate) open() {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(g.file, nil, 0o600))
}
