package engine

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/test/githost"
)

// newGitHubBench returns an engine with a host that has issues and pull requests, and a commit on a run's
// branch.
func newGitHubBench(t *testing.T) (*bench, *githost.GitHub, client.CommitResult) {
	t.Helper()
	b := newBench(t)
	g := b.host.ServeGitHub(t, b.repo)
	b.step.Repository.Kind, b.step.Repository.API, b.step.Repository.HostID = "github", b.host.URL+"/api/v3", "4711"
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	return b, g, b.committed(t, base, githost.Files{"a": "2\n"})
}

func proposeInput(head string, issue int) client.ProposeInput {
	return client.ProposeInput{
		Branch: "run/1", Head: head, Base: "main", Title: "Fix it", Body: "Because.", Marker: "svc-run r1", Issue: issue,
	}
}

func TestRunAtGitHub(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	number := g.Add(githost.Entry{Title: "It is broken", Body: "Please mend it.", Labels: []string{"bug"}})
	b.host.SetPublic(true)
	probed := b.probe(t, client.ProbeInput{})
	require.True(t, probed.OK, "%+v", probed.Checks)
	require.Equal(t, "4711", probed.HostID)

	read := b.issue(t, client.IssueInput{Number: number, Branch: "main"})
	require.Equal(t, "Please mend it.", read.Issue.Body)
	require.True(t, read.Issue.Open)

	pr := b.propose(t, proposeInput(made.Head, number))
	require.Equal(t, 2, pr.Number)
	require.Contains(t, g.Entry(2).Body, "<!-- svc-run r1 -->")
	require.Equal(t, pr, b.propose(t, proposeInput(made.Head, number)))
	require.Equal(t, 1, g.Count("POST /pulls"))
	require.Equal(t, []string{"A run works on this issue: #2.\n\n<!-- svc-run r1 -->"}, g.Comments(number))
	require.Equal(t, 1, g.Count("POST /statuses/{commit}"))

	readyIn := readyInput(made.Head)
	readyIn.Landing = "host"
	candidate := b.ready(t, readyIn)
	require.Empty(t, b.repo.Head(t, "svc-lane/1"), "the host makes the commit")
	in := mergeInput(made.Head, candidate)
	in.Landing, in.PullRequest = "host", pr.Number
	merged := b.merge(t, in)
	require.Equal(t, []any{candidate.Tree, candidate.Base, false, "svc"}, []any{merged.Tree, merged.FirstParent, merged.Outside, merged.By})
	require.Equal(t, merged, b.merge(t, in))
	require.Equal(t, 1, g.Count("PUT /pulls/{n}/merge"))

	looked := b.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: 2})
	require.True(t, looked.Contained)
	require.Equal(t, &client.PullRequest{
		State: "merged", Head: made.Head, MergeCommit: merged.Commit, By: "svc", Tree: merged.Tree, FirstParent: merged.FirstParent,
	}, looked.PullRequest)

	tidyIn := client.TidyInput{
		Branch: "run/1", Head: made.Head, Lane: "svc-lane/1", PullRequest: 2, Close: true, Issue: number,
		Marker: "svc-run r1", Comment: "Merged.",
	}
	require.Equal(t, client.TidyResult{PullRequest: "merged", Branch: "deleted"}, b.tidy(t, tidyIn))
	require.Equal(t, []string{"Merged.\n\n<!-- svc-run r1 -->"}, g.Comments(number))
	require.Equal(t, 1, g.Count("POST /issues/{n}/comments"))
}

func TestPullRequestIsFoundInEveryState(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	closed := g.Add(githost.Entry{Title: "Fix it", Body: "x <!-- svc-run r1 -->", Head: "run/1", Base: "main", Closed: true})
	got := b.propose(t, proposeInput(made.Head, 0))
	require.Equal(t, closed, got.Number)
	require.Zero(t, g.Count("POST /pulls"))
	_, err := b.tryPropose(proposeInput(strings.Repeat("a", 40), 0))
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)

	require.Equal(t, "closed", b.tidy(t, client.TidyInput{Branch: "run/1", PullRequest: closed, Close: true}).PullRequest)
	other := g.Add(githost.Entry{Head: "other", Base: "main"})
	in := client.TidyInput{Branch: "run/1", Head: strings.Repeat("a", 40), PullRequest: other, Close: true}
	require.Equal(t, client.TidyResult{PullRequest: "left", Branch: "left"}, b.tidy(t, in))
	require.False(t, g.Entry(other).Closed)
}

func TestR15HostRefusesAnotherHead(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	pr := b.propose(t, proposeInput(made.Head, 0))
	r := b.ready(t, readyInput(made.Head))
	in := mergeInput(made.Head, r)
	in.Landing, in.PullRequest = "host", pr.Number
	var sent atomic.Bool
	b.host.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, "/merge") && sent.CompareAndSwap(false, true) { // between the check and the merge
			b.repo.Commit(t, "run/1", "by a person", githost.Files{"b": "1\n"})
		}
		return false
	})
	_, err := b.tryMerge(in)
	requireCode(t, err, client.Permanent, client.CodeHeadMoved)
	require.Equal(t, 1, g.Count("PUT /pulls/{n}/merge"))
	require.Equal(t, r.Base, b.repo.Head(t, "main"))
}

// Refusals of a merge that pass are told from those that do not.
func TestR19RefusalsOfAMerge(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	pr := b.propose(t, proposeInput(made.Head, 0))
	r := b.ready(t, readyInput(made.Head))
	in := mergeInput(made.Head, r)
	in.Landing, in.PullRequest = "host", pr.Number
	var status atomic.Int64
	var words atomic.Value
	b.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, "/merge") || status.Load() == 0 {
			return false
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprintf(w, `{"message":%q}`, words.Load())
		return true
	})
	for _, c := range []struct {
		status      int64
		words, code string
		class       client.Class
	}{
		{405, "Base branch was modified. Review and try the merge again.", client.CodeHostRule, client.Transient},
		{405, "Required status check \"ci\" is expected.", client.CodeHostRule, client.Transient},
		{409, "Head branch was modified.", client.CodeHeadMoved, client.Permanent},
		{403, "Resource not accessible by personal access token " + githost.Token, client.CodeCredential, client.Surroundings},
		{422, "Squash merges are not allowed.", client.CodeHostRefused, client.Permanent},
		{502, "Bad gateway", client.CodeHostAway, client.Transient},
	} {
		words.Store(c.words)
		status.Store(c.status)
		_, err := b.tryMerge(in)
		f := requireCode(t, err, c.class, c.code)
		require.Contains(t, f.Message, strings.ReplaceAll(c.words, githost.Token, "[credential]"))
	}
	status.Store(0)
	require.False(t, b.merge(t, in).Outside)
	require.Equal(t, 1, g.Count("PUT /pulls/{n}/merge"))
}

func TestR44HostMergesOntoAMovedBase(t *testing.T) {
	t.Parallel()
	b, _, made := newGitHubBench(t)
	pr := b.propose(t, proposeInput(made.Head, 0))
	r := b.ready(t, readyInput(made.Head))
	in := mergeInput(made.Head, r)
	in.Landing, in.PullRequest = "host", pr.Number
	var moved atomic.Value
	b.host.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, "/merge") && moved.Load() == nil {
			moved.Store(b.repo.Commit(t, "main", "theirs", githost.Files{"b": "1\n"}))
		}
		return false
	})
	merged := b.merge(t, in)
	require.Equal(t, moved.Load(), merged.FirstParent, "noticed")
	require.NotEqual(t, r.Tree, merged.Tree)
	require.False(t, merged.Outside)
}

func TestMergeByAPersonAtTheHostIsOutside(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	pr := b.propose(t, proposeInput(made.Head, 0))
	r := b.ready(t, readyInput(made.Head))
	g.MergeByHand(pr.Number)
	in := mergeInput(made.Head, r)
	in.Landing, in.PullRequest = "host", pr.Number
	merged := b.merge(t, in)
	require.True(t, merged.Outside)
	require.Equal(t, "ann", merged.By)
	require.Zero(t, g.Count("PUT /pulls/{n}/merge"))
}

func TestIssuesAreListedWithoutPullRequests(t *testing.T) {
	t.Parallel()
	b, g, _ := newGitHubBench(t)
	for i := range 7 {
		g.Add(githost.Entry{Title: fmt.Sprintf("Issue %d", i), Body: "long", Labels: []string{"even"}[:(i+1)%2]})
		g.Add(githost.Entry{Title: "Pull", Head: "x", Base: "main"})
	}
	titles := func(in client.IssuesInput) (list []string, total int) {
		r := b.issues(t, in)
		for _, i := range r.Issues {
			require.Empty(t, i.Body)
			list = append(list, i.Title)
		}
		return list, r.Total
	}
	list, total := titles(client.IssuesInput{Page: 2, PerPage: 3})
	require.Equal(t, []string{"Issue 3", "Issue 2", "Issue 1"}, list)
	require.Equal(t, 7, total)
	list, total = titles(client.IssuesInput{Page: 1, PerPage: 3, Label: "even"})
	require.Equal(t, []string{"Issue 6", "Issue 4", "Issue 2"}, list)
	require.Equal(t, 4, total)
	list, _ = titles(client.IssuesInput{Page: 1, PerPage: 3, Query: "ISSUE 5"})
	require.Equal(t, []string{"Issue 5"}, list)
	_, err := b.tryIssue(client.IssueInput{Number: 2, Branch: "main"})
	requireCode(t, err, client.Permanent, client.CodeNoIssue)
	_, err = b.tryIssue(client.IssueInput{Number: 99, Branch: "main"})
	requireCode(t, err, client.Permanent, client.CodeNoIssue)
}

// Each answer of a host means something for the step, and none shows the credential.
func TestAnswersOfHosts(t *testing.T) {
	t.Parallel()
	b, g, made := newGitHubBench(t)
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter)
		class client.Class
		code  string
	}{
		"401": {func(w http.ResponseWriter) { w.WriteHeader(401) }, client.Surroundings, client.CodeCredential},
		"404": {func(w http.ResponseWriter) { w.WriteHeader(404) }, client.Surroundings, client.CodeNoRepository},
		"500": {func(w http.ResponseWriter) { w.WriteHeader(500) }, client.Transient, client.CodeHostAway},
		"429": {func(w http.ResponseWriter) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) }, client.Transient, client.CodeHostLimited},
		"limited": {func(w http.ResponseWriter) { w.Header().Set("X-RateLimit-Remaining", "0"); w.WriteHeader(403) },
			client.Transient, client.CodeHostLimited},
		"html": {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, client.Transient, client.CodeHostAway},
		"half": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "900"); _, _ = w.Write([]byte(`{"id":`)) },
			client.Transient, client.CodeHostAway},
		"huge": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"name":"` + strings.Repeat("x", 9<<20) + `"}`))
		}, client.Transient, client.CodeHostAway},
		"elsewhere": {func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/x"); w.WriteHeader(301) },
			client.Surroundings, client.CodeNoRepository},
		"cut": {func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, client.Transient, client.CodeHostAway},
	} {
		b.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
			if strings.HasPrefix(q.URL.Path, "/api/") {
				c.fault(w)
				return true
			}
			return false
		})
		_, err := b.tryPropose(proposeInput(made.Head, 0))
		f := requireCode(t, err, c.class, c.code)
		if name == "429" {
			require.Equal(t, 7, f.RetryAfter)
		}
	}
	b.host.SetFault(nil)
	g.Change(func(r *githost.GitHubRepository) { r.ID = 4712 })
	_, err := b.tryPropose(proposeInput(made.Head, 0))
	requireCode(t, err, client.Surroundings, client.CodeIdentity)
	require.Zero(t, g.Count("POST /pulls"))
}

func TestProbeNamesWhatIsLacking(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(b *bench, g *githost.GitHub)
		in      client.ProbeInput
		check   string
	}{
		"archived": {func(_ *bench, g *githost.GitHub) {
			g.Change(func(r *githost.GitHubRepository) { r.Settings = map[string]any{"archived": true} })
		}, client.ProbeInput{}, "archived"},
		"read only": {func(_ *bench, g *githost.GitHub) {
			g.Settings = map[string]any{"permissions": map[string]any{"push": false}}
		}, client.ProbeInput{}, "permission"},
		"no merge": {func(_ *bench, g *githost.GitHub) {
			g.Change(func(r *githost.GitHubRepository) { r.Settings = map[string]any{"allow_merge_commit": false} })
		}, client.ProbeInput{Method: "merge"}, "method"},
		"signatures": {func(_ *bench, g *githost.GitHub) {
			g.Change(func(r *githost.GitHubRepository) { r.Rules = []map[string]any{{"type": "required_signatures"}} })
		}, client.ProbeInput{}, "signatures"},
		"queue": {func(_ *bench, g *githost.GitHub) {
			g.Change(func(r *githost.GitHubRepository) {
				r.Rules = []map[string]any{{"type": "merge_queue", "parameters": map[string]any{}}}
			})
		}, client.ProbeInput{}, "merge_queue"},
		"branch":  {func(*bench, *githost.GitHub) {}, client.ProbeInput{Branch: "nothing"}, "branch"},
		"private": {func(b *bench, _ *githost.GitHub) { b.host.SetPublic(false) }, client.ProbeInput{}, "read"},
		"reader": {func(b *bench, _ *githost.GitHub) { b.host.SetPublic(false) },
			client.ProbeInput{ReadCredential: client.Credential{Token: "wrong-reader"}}, "read"},
		"credential": {func(b *bench, _ *githost.GitHub) { b.step.Repository.Credential.Token = "wrong-token-1234" },
			client.ProbeInput{}, "credential"},
		"identity": {func(_ *bench, g *githost.GitHub) { g.Change(func(r *githost.GitHubRepository) { r.ID = 1 }) },
			client.ProbeInput{}, "identity"},
		"push": {func(b *bench, _ *githost.GitHub) {
			b.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
				if strings.Contains(q.URL.String(), "git-receive-pack") {
					w.WriteHeader(403)
					return true
				}
				return false
			})
		}, client.ProbeInput{}, "push"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, g, _ := newGitHubBench(t)
			b.host.SetPublic(true)
			c.prepare(b, g)
			var said []string
			r, err := client.Do[client.ProbeInput, client.ProbeResult](t.Context(), b.Client, client.StepProbe, b.step, c.in, nil,
				func(text string) { said = append(said, text) })
			require.NoError(t, err)
			require.False(t, r.OK)
			var lacking []string
			for _, check := range r.Checks {
				require.Contains(t, said, check.Text)
				if check.Status == "lacking" {
					lacking = append(lacking, check.ID)
					require.NotEmpty(t, check.Text+check.Remedy)
				}
			}
			require.Equal(t, []string{c.check}, lacking, "%+v", r.Checks)
			require.NotContains(t, b.repo.Git(t, "for-each-ref"), "svc-check")
		})
	}
}
