//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// A workshop is a farm with a code host, on whose repositories runs work.
type workshop struct {
	*farm
	host   *codeHost
	viewer caller
	pool   *pgxpool.Pool // survives restarts of PostgreSQL
}

// newWorkshop starts a workshop. The environment is that of svc-rest.
func newWorkshop(t *testing.T, machines int, environ ...string) *workshop {
	t.Helper()
	w := &workshop{host: newCodeHost(t)}
	w.farm = newFarm(t, machines, append(environ, "SVC_ALLOW_LOCAL_CODE_HOSTS=true", "SVC_FARM_CENTS_PER_MINUTE=60")...)
	for _, p := range w.installation.dev().People {
		if p.Role == "Viewer" && p.WorkspaceSlug == "acme" {
			w.viewer = signIn(t, w.rest[0].url(), p)
		}
	}
	var err error
	w.pool, err = pgxpool.New(t.Context(), w.database)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	return w
}

func (w *workshop) api(path string) string { return w.rest[0].url() + "/api/v1" + path }

// A project is a repository of the code host that is connected to the workspace. Each has its own test.
type project struct {
	*workshop
	host  *codeHost
	t     *testing.T
	name  string // owner/name
	id    string
	clone clone
}

// settings are those of a repository, as the API has them.
type settings map[string]any

// requires returns settings that require a job to run a script.
func requires(script string) settings { return settings{"requiredJobs": []any{jobOf("test", script)}} }

func jobOf(name, script string) map[string]any {
	return map[string]any{"name": name, "sandbox": map[string]string{"kind": "none"}, "steps": []map[string]string{{"run": script}}}
}

// byCommand adds a command that writes the code to settings.
func (s settings) byCommand(script string) settings {
	s["implementer"] = map[string]any{"kind": "command", "run": script, "sandbox": map[string]string{"kind": "none"}}
	return s
}

// words is the file of a new project.
const words = "one\ntwo\nthree\n"

// newProject makes a private repository with a file, and connects it.
func (w *workshop) newProject(t *testing.T, kind string, s settings) *project {
	t.Helper()
	return w.newProjectAt(t, w.host, t.Name()[strings.LastIndex(t.Name(), "/")+1:], kind, s)
}

var outsideNames = regexp.MustCompile(`[^a-z0-9]+`)

// newProjectAt makes a project of a name at a code host.
func (w *workshop) newProjectAt(t *testing.T, host *codeHost, name, kind string, s settings) *project {
	t.Helper()
	short := outsideNames.ReplaceAllString(strings.ToLower(name), "-")
	p := &project{workshop: w, host: host, t: t, name: "acme/" + short}
	host.ask(t, http.StatusCreated, "POST", "/orgs/acme/repos", map[string]any{"name": short, "private": true}, nil)
	p.clone = host.newClone(t, p.name)
	p.clone.push("main", map[string]string{"words.txt": words, "check.sh": "#!/bin/sh\ngrep -q one words.txt\n"})
	url := host.url + "/" + p.name
	if kind == "git" {
		url += ".git"
	}
	a := w.owner.expect(t, http.StatusCreated, "POST", w.api("/repos"), map[string]any{
		"kind": kind, "url": url, "credential": hostToken, "readCredential": hostReadToken, "settings": s,
	})
	p.id = decode[struct{ ID string }](t, a).ID
	return p
}

// patchOf returns the body of an issue that carries a patch, which replaces a word of the project's file.
func patchOf(word, by string) string {
	lines, diff := strings.Split(strings.TrimSpace(words), "\n"), ""
	for _, line := range lines {
		if line == word {
			diff += "-" + line + "\n+" + by + "\n"
		} else {
			diff += " " + line + "\n"
		}
	}
	return fmt.Sprintf("Please.\n\n```diff\n--- a/words.txt\n+++ b/words.txt\n@@ -1,%d +1,%d @@\n%s```\n", len(lines), len(lines), diff)
}

// issue opens an issue at the code host and returns its number.
func (p *project) issue(title, body string) (number int) {
	p.t.Helper()
	var made struct{ Number int }
	p.host.ask(p.t, http.StatusCreated, "POST", "/repos/"+p.name+"/issues", map[string]string{"title": title, "body": body}, &made)
	return made.Number
}

// queue opens an issue and queues it.
func (p *project) queue(title, body string) *loopRun {
	p.t.Helper()
	return p.queueIssue(map[string]any{"repoId": p.id, "issueNumber": p.issue(title, body)})
}

// queueIssue queues an issue, by the body of the request.
func (p *project) queueIssue(body map[string]any) *loopRun {
	p.t.Helper()
	a := p.owner.expect(p.t, http.StatusCreated, "POST", p.api("/backlog/queue"), body)
	queued := decode[struct {
		ID          string
		IssueNumber int
	}](p.t, a)
	return &loopRun{p, queued.ID, queued.IssueNumber}
}

// log returns the commits of a branch at the code host: the subjects of the newest first, along the first parents.
func (p *project) log(branch string) []string {
	p.t.Helper()
	p.clone.git("fetch", "-q", "--prune", "origin")
	return strings.Split(p.clone.git("log", "--first-parent", "--format=%s", "origin/"+branch), "\n")
}

// show returns a file of a branch at the code host.
func (p *project) show(branch, file string) string {
	p.t.Helper()
	p.clone.git("fetch", "-q", "origin")
	return p.clone.git("show", "origin/"+branch+":"+file)
}

// branches returns the branches at the code host.
func (p *project) branches() []string {
	p.t.Helper()
	var list []string
	for line := range strings.Lines(p.clone.git("ls-remote", "--heads", "origin")) {
		_, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		list = append(list, strings.TrimPrefix(ref, "refs/heads/"))
	}
	return list
}

// TestLoop runs tests of the loop in one workshop.
func TestLoop(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 3)
	w.runAll(t, map[string]func(*testing.T, *workshop){
		"issues become merged pull requests": issuesBecomeMergedPullRequests,
		"requirements":                       requirements,
		"secrets are nowhere":                secretsAreNowhere,
		"agents":                             agents,
	})
}

// runAll runs tests in the workshop, all at once.
func (w *workshop) runAll(t *testing.T, tests map[string]func(*testing.T, *workshop)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// issuesBecomeMergedPullRequests takes issues through the whole loop.
func issuesBecomeMergedPullRequests(t *testing.T, w *workshop) {
	for name, c := range map[string]struct {
		kind     string
		settings settings
		body     string
		rounds   int
	}{
		"patch":   {"github", requires("sh check.sh && grep -q deux words.txt"), patchOf("two", "deux"), 1},
		"exact":   {"github", requires("sh check.sh"), patchOf("two", "deux"), 1},
		"squash":  {"github", requires("sh check.sh"), patchOf("two", "deux"), 1},
		"gitea":   {"gitea", requires("sh check.sh"), patchOf("two", "deux"), 1},
		"git":     {"git", requires("sh check.sh"), patchOf("two", "deux"), 1},
		"command": {"github", requires("grep -q deux words.txt || { echo the word is missing; exit 3; }").byCommand(twoRounds), "Write deux.", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch name {
			case "exact":
				c.settings["landing"] = "exact"
			case "squash":
				c.settings["method"] = "squash"
			}
			p := w.newProject(t, c.kind, c.settings)
			var r *loopRun
			if c.kind == "git" {
				r = p.queueIssue(map[string]any{"repoId": p.id, "title": "Say deux", "body": c.body})
			} else {
				r = p.queue("Say deux", c.body)
			}
			r.requireOnlyApproversDecide()
			r.approve()
			r.await("run.tidied")
			r.requireMerged(c.kind, c.rounds)
			require.Equal(t, "one\ndeux\nthree", p.show("main", "words.txt"))
			require.Equal(t, []string{"main"}, p.branches())
			r.requireEstimates(c.rounds == 1)
			if c.rounds == 2 {
				require.Contains(t, r.jobLog("implement", 2), "the log says: the word is missing")
			}
		})
	}
}

// twoRounds is an implementer who succeeds in the second round, when it knows why the required job failed.
const twoRounds = `
	if grep -q "the word is missing" "$SVC_IN/task.json"; then
		echo the log says: the word is missing
		printf "one\ndeux\nthree\n" >words.txt
	else
		printf "one\nzwei\nthree\n" >words.txt
	fi
	echo '{"status":"done","summary":"I said it.","commitMessage":"Say it in French","cost":{"cents":7}}' >"$SVC_OUT/outcome.json"`

// requireOnlyApproversDecide requires that a Viewer cannot approve the merge, and nobody a commit other than the head.
func (r *loopRun) requireOnlyApproversDecide() {
	r.t.Helper()
	item := r.awaitItem("merge_approval")
	answer := map[string]string{"action": "approve_and_merge", "expectedHead": item.Subject.HeadSHA}
	r.viewer.expect(r.t, http.StatusForbidden, "POST", r.api("/inbox/"+item.ID+"/answer"), answer)
	answer["expectedHead"] = strings.Repeat("0", 40)
	a := r.owner.expect(r.t, http.StatusConflict, "POST", r.api("/inbox/"+item.ID+"/answer"), answer)
	require.Equal(r.t, "decision_stale", a.code())
}

// requireMerged requires that the run merged once and left nothing, and that all that tells about it agrees.
func (r *loopRun) requireMerged(kind string, rounds int) {
	r.t.Helper()
	events := r.events()
	kinds := kindsOf(events)
	require.Equal(r.t, storyOf(kind, rounds), kinds)
	e := r.host.counts(r.t, r.name)
	require.Equal(r.t, rounds+1, e.Pushes["refs/heads/run/"+r.id], "with that which deletes it: %+v", e)
	pulls := 1
	if kind == "git" {
		pulls = 0
	}
	require.Equal(r.t, pulls, e.Pulls, "%+v", e)
	require.Equal(r.t, pulls, e.Comments, "%+v", e)
	require.Equal(r.t, pulls, e.Merges, "%+v", e)
	require.Zero(r.t, e.PullsClosed, "%+v", e)
	subjects := r.project.log("main")
	require.Len(r.t, subjects, 2, "%q", subjects)
	require.Contains(r.t, subjects[0], "Say deux")
	var audit []string
	require.Eventually(r.t, func() bool {
		audit = r.audit()
		return len(audit) == len(kinds)
	}, waitLimit, 50*time.Millisecond, "%q", audit)
	require.Equal(r.t, kinds, audit)
	r.requireInsights(r.requireCosts(rounds))
}

// storyOf returns what kindsOf returns of a run that merges.
func storyOf(kind string, rounds int) []string {
	list := []string{"run.queued", "run.started", "run.stage_entered", "run.issue_read", "run.base_read",
		"run.facts_recorded", "run.stage_succeeded", "run.stage_entered",
		"run.plan_recorded", "run.budget_set", "run.stage_succeeded", "run.stage_entered"}
	for n := range rounds {
		if rounds > 1 {
			list = append(list, "run.job_requested", "run.job_settled", "run.cost_recorded")
		}
		if n == 0 {
			list = append(list, "run.branch_created")
		}
		list = append(list, "run.commits_pushed")
		if rounds > 1 {
			list = append(list, "run.cost_recorded")
		}
		list = append(list, "run.guardrails_checked", "run.stage_succeeded", "run.stage_entered",
			"run.job_requested", "run.job_settled", "run.cost_recorded")
		if n < rounds-1 {
			list = append(list, "run.stage_failed", "run.stage_entered")
		}
	}
	list = append(list, "run.stage_succeeded", "run.stage_entered", "run.reviewed", "run.stage_succeeded", "run.stage_entered")
	if kind != "git" {
		list = append(list, "run.pull_request_opened")
	}
	return append(list, "decision.raised", "decision.answered", "run.merge_approved", "run.lane_entered",
		"run.merge_candidate", "run.merge_attempted", "run.stage_succeeded", "run.merged", "run.tidied")
}

// kindsOf returns the kinds of events, without those that tell what a run waits for, and what it may cost, for which the
// engine has to be there.
func kindsOf(list []entry) (kinds []string) {
	for _, e := range list {
		if e.Kind != "run.waiting" && e.Kind != "run.estimated" {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}
