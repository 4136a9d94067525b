package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/events"
	"svc/test/githost"
)

// newForgeBench returns an engine with a host that has issues and pull requests, and a commit on a run's
// branch.
func newForgeBench(t *testing.T, kind string) (*bench, *githost.Forge, client.CommitResult) {
	t.Helper()
	b := newBench(t)
	f, address := b.host.Serve(t, b.repo, kind)
	b.step.Repository.Kind, b.step.Repository.API, b.step.Repository.HostID = kind, address, "4711"
	base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
	return b, f, b.committed(t, base, githost.Files{"a": "2\n"})
}

// A forged is what a test of all hosts with issues and pull requests has.
type forged struct {
	*bench
	*githost.Forge
	made client.CommitResult
	kind string
}

// atForges runs a test at each kind of host with issues and pull requests.
func atForges(t *testing.T, test func(*testing.T, *forged)) {
	t.Helper()
	t.Parallel()
	for _, kind := range events.HostKinds {
		if kind == string(events.HostGit) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, f, made := newForgeBench(t, kind)
			test(t, &forged{b, f, made, kind})
		})
	}
}

// proposed proposes the commit and returns the input of its merge by the host.
func (f *forged) proposed(t *testing.T) (client.MergeInput, client.ReadyResult) {
	t.Helper()
	pr := f.propose(t, proposeInput(f.made.Head, 0))
	r := f.ready(t, readyInput(f.made.Head))
	in := mergeInput(f.made.Head, r)
	in.Landing, in.PullRequest = "host", pr.Number
	return in, r
}

// meanwhile does something once, before the host gets to merge.
func (f *forged) meanwhile(do func()) {
	var done atomic.Bool
	f.host.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, "/merge") && done.CompareAndSwap(false, true) {
			do()
		}
		return false
	})
}

func proposeInput(head string, issue int) client.ProposeInput {
	return client.ProposeInput{
		Branch: "run/1", Head: head, Base: "main", Title: "Fix it", Body: "Because.", Marker: "svc-run r1", Issue: issue,
	}
}

// The way of a whole run.
func TestRunAtEachKindOfHost(t *testing.T) {
	t.Parallel()
	for _, kind := range events.HostKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == string(events.HostGit) {
				b := newBench(t)
				base := b.repo.Commit(t, "main", "first", githost.Files{"a": "1\n"})
				runAt(t, &forged{b, nil, b.committed(t, base, githost.Files{"a": "2\n"}), kind}, 0, "exact")
				return
			}
			b, f, made := newForgeBench(t, kind)
			number := f.Add(githost.Entry{Title: "It is broken", Body: "Please mend it.", Labels: []string{"bug"}})
			runAt(t, &forged{b, f, made, kind}, number, "host")
			require.Contains(t, f.Entry(2).Body, "<!-- svc-run r1 -->")
			require.Equal(t, []string{"Merged.\n\n<!-- svc-run r1 -->"}, f.Comments(number))
			for effect, times := range map[githost.Effect]int{githost.Proposes: 1, githost.Merges: 1, githost.Comments: 1, githost.SetStatus: 2} {
				require.Equal(t, times, f.Count(effect), effect)
			}
		})
	}
}

// runAt does each step of a run twice, as after a lost answer.
func runAt(t *testing.T, f *forged, number int, landing string) {
	t.Helper()
	forge, made, base := f.Forge != nil, f.made, f.repo.Head(t, "main")
	refs := func() string { return f.repo.Git(t, "for-each-ref", "--format=%(refname:short)") }
	probed := f.probe(t, client.ProbeInput{ReadCredential: client.Credential{Token: githost.ReadToken}})
	require.True(t, probed.OK, "%+v", probed.Checks)
	require.Equal(t, []string{f.step.Repository.HostID, f.step.Repository.API, "main"},
		[]string{probed.HostID, probed.API, probed.DefaultBranch})
	require.Equal(t, "main\nrun/1", refs())

	began := f.issue(t, client.IssueInput{Number: number, Branch: "main", Policy: client.Policy{MaxFiles: 9}})
	require.Equal(t, base, began.Base)
	require.Len(t, began.SHA, 64)
	require.Equal(t, forge, began.Issue != nil && began.Issue.Body == "Please mend it." && began.Issue.Open)
	checked := f.inspect(t, client.InspectInput{Base: base, Head: made.Head, Branch: "run/1", Policy: began.Policy})
	require.Equal(t, "clean", checked.Status)
	require.Equal(t, made, checked.CommitResult)

	pr := f.propose(t, proposeInput(made.Head, number))
	require.Equal(t, forge, pr.Number == 2)
	require.Equal(t, pr, f.propose(t, proposeInput(made.Head, number)))
	lookIn := client.LookInput{Branch: "run/1", Base: "main", PullRequest: pr.Number}
	looked := f.look(t, lookIn)
	require.Equal(t, []any{made.Head, base, false}, []any{looked.Head, looked.Base, looked.Contained})
	if forge {
		require.Equal(t, &client.PullRequest{State: "open", Head: made.Head}, looked.PullRequest)
		require.Equal(t, []string{"A run works on this issue: #2.\n\n<!-- svc-run r1 -->"}, f.Comments(number))
	}

	readyIn := readyInput(made.Head)
	readyIn.Landing = landing
	candidate := f.ready(t, readyIn)
	require.Equal(t, []string{made.Tree, base}, []string{candidate.Tree, candidate.Base})
	require.Equal(t, candidate, f.ready(t, readyIn))
	require.Equal(t, forge, f.repo.Head(t, "svc-lane/1") == "", "a forge makes the commit itself")

	in := mergeInput(made.Head, candidate)
	in.Landing, in.PullRequest = landing, pr.Number
	merged := f.merge(t, in)
	require.Equal(t, merged, f.merge(t, in))
	require.Equal(t, []any{f.repo.Head(t, "main"), made.Tree, base, false},
		[]any{merged.Commit, merged.Tree, merged.FirstParent, merged.Outside})
	looked = f.look(t, lookIn)
	require.True(t, looked.Contained)
	state := "none"
	if forge {
		state = "merged"
		require.Equal(t, "svc", merged.By)
		require.Equal(t, &client.PullRequest{
			State: "merged", Head: made.Head, MergeCommit: merged.Commit, By: "svc", Tree: merged.Tree, FirstParent: merged.FirstParent,
		}, looked.PullRequest)
		watched := do[client.WatchInput, client.WatchResult](t, f.bench, client.StepWatch, client.WatchInput{Folder: "run"})
		require.Equal(t, client.WatchResult{Heads: map[string]string{"run/1": made.Head}, Closed: []int{2}}, watched)
	}

	tidyIn := client.TidyInput{
		Branch: "run/1", Head: made.Head, Lane: "svc-lane/1", PullRequest: pr.Number, Close: true, Issue: number,
		Marker: "svc-run r1", Comment: "Merged.",
	}
	for _, branch := range []string{"deleted", "none"} {
		require.Equal(t, client.TidyResult{PullRequest: state, Branch: branch}, f.tidy(t, tidyIn))
	}
	require.Equal(t, "main", refs())
}

func TestPullRequestIsFoundInEveryState(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		closed := f.Add(githost.Entry{Title: "Fix it", Body: "x <!-- svc-run r1 -->", Head: "run/1", Base: "main", Closed: true, Who: "ann"})
		for range 60 {
			f.Add(githost.Entry{Title: "Another", Head: "other", Base: "main"})
		}
		got := f.propose(t, proposeInput(f.made.Head, 0))
		require.Equal(t, closed, got.Number)
		require.Zero(t, f.Count(githost.Proposes))
		_, err := f.tryPropose(proposeInput(strings.Repeat("a", 40), 0))
		requireCode(t, err, client.Permanent, client.CodeHeadMoved)
		looked := f.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: closed})
		require.Equal(t, &client.PullRequest{State: "closed", Head: f.made.Head, By: "ann"}, looked.PullRequest)

		require.Equal(t, "closed", f.tidy(t, client.TidyInput{Branch: "run/1", PullRequest: closed, Close: true}).PullRequest)
		other := f.Add(githost.Entry{Head: "other", Base: "main"})
		in := client.TidyInput{Branch: "run/1", Head: strings.Repeat("a", 40), PullRequest: other, Close: true}
		require.Equal(t, client.TidyResult{PullRequest: "left", Branch: "left"}, f.tidy(t, in))
		require.False(t, f.Entry(other).Closed)
	})
}

// Between the look for a pull request and its creation somebody else may create one.
func TestPullRequestOfTheSameMomentIsTaken(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		var theirs atomic.Int64
		f.host.SetFault(func(_ http.ResponseWriter, q *http.Request) bool {
			if strings.HasSuffix(q.URL.Path, "/pulls") && q.Method == http.MethodPost && theirs.Load() == 0 {
				theirs.Store(int64(f.Add(githost.Entry{Head: "run/1", Base: "main"})))
			}
			return false
		})
		require.EqualValues(t, f.propose(t, proposeInput(f.made.Head, 0)).Number, theirs.Load())
		require.Equal(t, "closed", f.tidy(t, client.TidyInput{Branch: "run/1", PullRequest: int(theirs.Load()), Close: true}).PullRequest)
		require.True(t, f.Entry(int(theirs.Load())).Closed)
	})
}

func TestR15HostRefusesAnotherHead(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.meanwhile(func() { f.repo.Commit(t, "run/1", "by a person", githost.Files{"b": "1\n"}) }) // between the check and the merge
		_, err := f.tryMerge(in)
		requireCode(t, err, client.Permanent, client.CodeHeadMoved)
		require.Equal(t, 1, f.Count(githost.Merges))
		require.Equal(t, r.Base, f.repo.Head(t, "main"))
	})
}

// What the host shows of a pull request may be behind: git says where the branch is.
func TestR18HostIsBehind(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.Change(func(t *githost.Traits) { t.Stale = r.Base })
		for range 3 {
			_, err := f.tryMerge(in)
			lag := requireCode(t, err, client.Transient, client.CodeHostLag)
			require.Equal(t, "The code host has not seen the push yet.", lag.Message)
		}
		require.Equal(t, f.made.Head, f.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: in.PullRequest}).Head)
		require.Zero(t, f.Count(githost.Merges))
		f.Change(func(t *githost.Traits) { t.Stale = "" })
		require.Equal(t, r.Tree, f.merge(t, in).Tree)
	})
}

// Refusals of a merge that pass are told from those that do not, and each says why in the host's words.
func TestR19R28RefusalsOfAMerge(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, _ := f.proposed(t)
		var status atomic.Int64
		var words atomic.Value
		f.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
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
			{405, "Please try again later", client.CodeHostRule, client.Transient},
			{405, "Does not have enough approvals", client.CodeHostRule, client.Transient},
			{405, "User not allowed to merge PR", client.CodeHostRule, client.Transient},
			{405, "squash is not allowed an allowed merge style for this repository", client.CodeHostRule, client.Transient},
			{409, "Head branch was modified.", client.CodeHeadMoved, client.Permanent},
			{409, "head out of date", client.CodeHeadMoved, client.Permanent},
			{409, "merge push out of date", client.CodeHostRule, client.Transient},
			{409, "PushRejected with remote message: no signature", client.CodeHostRule, client.Transient},
			{403, "Resource not accessible by personal access token " + githost.Token, client.CodeCredential, client.Surroundings},
			{404, "The target couldn't be found.", client.CodeNoRepository, client.Surroundings},
			{422, "Squash merges are not allowed.", client.CodeHostRefused, client.Permanent},
			{502, "Bad gateway", client.CodeHostAway, client.Transient},
		} {
			words.Store(c.words)
			status.Store(c.status)
			_, err := f.tryMerge(in)
			refused := requireCode(t, err, c.class, c.code)
			require.Contains(t, refused.Message, strings.ReplaceAll(c.words, githost.Token, "[credential]"))
		}
		status.Store(0)
		require.False(t, f.merge(t, in).Outside)
		require.Equal(t, 1, f.Count(githost.Merges))
	})
}

// Hosts refuse merges for a moment. Gitea says the same of a conflict, for ever: git decides which it is.
func TestR20MergeIsRefusedForAMoment(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.Change(func(t *githost.Traits) { t.Busy = 2 })
		for _, f.steps.spacing = range []time.Duration{0, time.Hour, 0} { // each try makes Gitea check again, for three seconds
			_, err := f.tryMerge(in)
			require.Equal(t, 5, requireCode(t, err, client.Transient, client.CodeHostRule).RetryAfter)
		}
		require.Equal(t, 2, f.Count(githost.Merges), "but for that which came too early")
		require.Equal(t, r.Tree, f.merge(t, in).Tree)
	})
}

func TestR20ConflictIsNotTriedAgain(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, _ := f.proposed(t)
		f.meanwhile(func() { f.repo.Commit(t, "main", "theirs", githost.Files{"a": "theirs\n"}) })
		_, err := f.tryMerge(in)
		requireCode(t, err, client.Transient, client.CodeHostRule)
		for range 3 {
			_, err = f.tryMerge(in)
			requireCode(t, err, client.Permanent, client.CodeBaseMoved)
		}
		require.Equal(t, []string{"a"}, f.ready(t, readyInput(f.made.Head)).Conflicts)
		require.Equal(t, 1, f.Count(githost.Merges))
	})
}

// The host's own word is neither needed to merge nor to see that it has merged.
func TestR21MergeThatIsNotMarked(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.Change(func(t *githost.Traits) { t.Unmarked = true })
		merged := f.merge(t, in)
		require.Equal(t, []any{r.Tree, r.Base, false}, []any{merged.Tree, merged.FirstParent, merged.Outside})
		require.Equal(t, merged, f.merge(t, in))
		require.Equal(t, 1, f.Count(githost.Merges))
		looked := f.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: in.PullRequest})
		require.True(t, looked.Contained)
		require.Equal(t, "open", looked.PullRequest.State)
	})
}

func TestR21SquashThatIsNotMarked(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		squash := f.repo.Git(t, "commit-tree", r.Tree, "-p", r.Base, "-m", "Merge it\n\nRun: r1")
		f.repo.Git(t, "update-ref", "refs/heads/main", squash)
		merged := f.merge(t, in)
		require.Equal(t, client.MergeResult{Commit: squash, Tree: r.Tree, FirstParent: r.Base}, merged)
		require.Zero(t, f.Count(githost.Merges))
	})
}

// A host may merge something else than what it was asked to: the result is what git has.
func TestR25HostMergesSomethingElse(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.repo.Commit(t, "scratch", "never seen", githost.Files{"evil": "1\n"})
		evil := f.repo.Git(t, "rev-parse", "scratch^{tree}")
		f.Change(func(t *githost.Traits) { t.Tree = evil })
		merged := f.merge(t, in)
		require.Equal(t, evil, merged.Tree)
		require.NotEqual(t, r.Tree, merged.Tree)
		require.Equal(t, merged.Tree, f.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: in.PullRequest}).PullRequest.Tree)
	})
}

func TestR44HostMergesOntoAMovedBase(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		var moved atomic.Value
		f.meanwhile(func() { moved.Store(f.repo.Commit(t, "main", "theirs", githost.Files{"b": "1\n"})) })
		merged := f.merge(t, in)
		require.Equal(t, moved.Load(), merged.FirstParent, "noticed")
		require.NotEqual(t, r.Tree, merged.Tree)
		require.False(t, merged.Outside)
	})
}

func TestMergeByAPersonAtTheHostIsOutside(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, _ := f.proposed(t)
		f.MergeByHand(in.PullRequest)
		merged := f.merge(t, in)
		require.True(t, merged.Outside)
		require.Equal(t, "ann", merged.By)
		require.Zero(t, f.Count(githost.Merges))
	})
}

func TestPullRequestThatIsClosedMeanwhile(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		in, r := f.proposed(t)
		f.meanwhile(func() { f.CloseByHand(in.PullRequest) })
		_, err := f.tryMerge(in)
		if f.kind == "github" { // whose words are those of other refusals
			requireCode(t, err, client.Transient, client.CodeHostRule)
			_, err = f.tryMerge(in)
		}
		requireCode(t, err, client.Permanent, client.CodeHeadMoved)
		require.Equal(t, r.Base, f.repo.Head(t, "main"))
	})
}

func TestIssuesAreListedWithoutPullRequests(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		for i := range 7 {
			f.Add(githost.Entry{Title: fmt.Sprintf("Issue %d", i), Body: "long", Labels: []string{"even"}[:(i+1)%2]})
			f.Add(githost.Entry{Title: "Pull", Head: "x", Base: "main"})
		}
		titles := func(in client.IssuesInput) (list []string, total int) {
			r := f.issues(t, in)
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
		list, _ = titles(client.IssuesInput{Page: 1, PerPage: 3, Label: "unknown"})
		require.Empty(t, list)
		for _, number := range []int{2, 99} {
			_, err := f.tryIssue(client.IssueInput{Number: number, Branch: "main"})
			requireCode(t, err, client.Permanent, client.CodeNoIssue)
		}
		f.Change(func(t *githost.Traits) { t.Settings = map[string]any{"has_issues": false} })
		list, _ = titles(client.IssuesInput{Page: 1, PerPage: 3})
		require.Empty(t, list)
	})
}

// Each answer of a host means something for the step, and none shows the credential.
func TestAnswersOfHosts(t *testing.T) {
	atForges(t, func(t *testing.T, f *forged) {
		for name, c := range map[string]struct {
			fault func(http.ResponseWriter)
			class client.Class
			code  string
			after int
		}{
			"401": {func(w http.ResponseWriter) { w.WriteHeader(401) }, client.Surroundings, client.CodeCredential, 0},
			"403": {func(w http.ResponseWriter) {
				w.WriteHeader(403)
				_, _ = w.Write([]byte(`{"message":"token does not have at least one of required scope(s): [write:repository] ` + githost.Token + `"}`))
			}, client.Surroundings, client.CodeCredential, 0},
			"404": {func(w http.ResponseWriter) { w.WriteHeader(404) }, client.Surroundings, client.CodeNoRepository, 0},
			"423": {func(w http.ResponseWriter) { w.WriteHeader(423) }, client.Surroundings, client.CodeNoRepository, 0},
			"500": {func(w http.ResponseWriter) { w.WriteHeader(500) }, client.Transient, client.CodeHostAway, 0},
			"429": {func(w http.ResponseWriter) { w.Header().Set("Retry-After", "7"); w.WriteHeader(429) },
				client.Transient, client.CodeHostLimited, 7},
			"4290": {func(w http.ResponseWriter) { w.WriteHeader(429) }, client.Transient, client.CodeHostLimited, 60},
			"limited": {func(w http.ResponseWriter) { w.Header().Set("X-RateLimit-Remaining", "0"); w.WriteHeader(403) },
				client.Transient, client.CodeHostLimited, 1},
			"second limit": {func(w http.ResponseWriter) {
				w.WriteHeader(403)
				_, _ = w.Write([]byte(`{"message":"You have exceeded a secondary rate limit. Please wait."}`))
			}, client.Transient, client.CodeHostLimited, 60},
			"html": {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, client.Transient, client.CodeHostAway, 0},
			"half": {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "900"); _, _ = w.Write([]byte(`{"id":`)) },
				client.Transient, client.CodeHostAway, 0},
			"huge": {func(w http.ResponseWriter) {
				_, _ = w.Write([]byte(`{"name":"` + strings.Repeat("x", 9<<20) + `"}`))
			}, client.Transient, client.CodeHostAway, 0},
			"elsewhere": {func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/x"); w.WriteHeader(301) },
				client.Surroundings, client.CodeNoRepository, 0},
			"nowhere": {func(w http.ResponseWriter) { w.WriteHeader(301) }, client.Surroundings, client.CodeNoRepository, 0},
			"cut":     {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, client.Transient, client.CodeHostAway, 0},
		} {
			f.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
				if strings.HasPrefix(q.URL.Path, "/api/") {
					c.fault(w)
					return true
				}
				return false
			})
			_, err := f.tryPropose(proposeInput(f.made.Head, 0))
			require.Equal(t, c.after, requireCode(t, err, c.class, c.code).RetryAfter, name)
		}
		f.host.SetFault(nil)
		f.Change(func(t *githost.Traits) { t.ID = 4712 })
		_, err := f.tryPropose(proposeInput(f.made.Head, 0))
		requireCode(t, err, client.Surroundings, client.CodeIdentity)
		require.Zero(t, f.Count(githost.Proposes))
	})
}

func settings(fields map[string]any) func(*forged) {
	return func(f *forged) { f.Change(func(t *githost.Traits) { t.Settings = fields }) }
}

// protected protects the target branch by a rule of Gitea's.
func protected(branch map[string]any, rule map[string]any) func(*forged) {
	return func(f *forged) {
		f.Change(func(t *githost.Traits) {
			t.Branch = map[string]any{"protected": true}
			for name, value := range branch {
				t.Branch[name] = value
			}
			if rule != nil {
				rule["rule_name"] = "main"
				t.Protections = []map[string]any{{"rule_name": "other", "require_signed_commits": true}, rule}
			}
		})
	}
}

func TestR28ProbeNamesWhatIsLacking(t *testing.T) {
	t.Parallel()
	github, gitea := []string{"github"}, []string{"gitea"}
	both := slices.Concat(github, gitea)
	exactly := client.ProbeInput{Landing: "exact"}
	for name, c := range map[string]struct {
		kinds   []string
		prepare func(f *forged)
		in      client.ProbeInput
		check   string
		noted   bool
	}{
		"archived":  {both, settings(map[string]any{"archived": true}), client.ProbeInput{}, "archived", false},
		"read only": {both, settings(map[string]any{"permissions": map[string]any{"push": false}}), client.ProbeInput{}, "permission", false},
		"no merge": {both, settings(map[string]any{"allow_merge_commit": false, "allow_merge_commits": false}),
			client.ProbeInput{Method: "merge"}, "method", false},
		"no squash": {both, settings(map[string]any{"allow_squash_merge": false}), client.ProbeInput{Method: "squash"}, "method", false},
		"no issues": {both, settings(map[string]any{"has_issues": false}), client.ProbeInput{}, "issues", true},
		"no pulls":  {gitea, settings(map[string]any{"has_pull_requests": false}), client.ProbeInput{}, "pulls", false},
		"signatures": {github, func(f *forged) {
			f.Change(func(t *githost.Traits) { t.Rules = []map[string]any{{"type": "required_signatures"}} })
		}, client.ProbeInput{}, "signatures", false},
		"signatures at Gitea": {gitea, protected(nil, map[string]any{"require_signed_commits": true}), client.ProbeInput{}, "signatures", false},
		"queue": {github, func(f *forged) {
			f.Change(func(t *githost.Traits) {
				t.Rules = []map[string]any{{"type": "merge_queue", "parameters": map[string]any{}}}
			})
		}, client.ProbeInput{}, "merge_queue", false},
		"no push":        {gitea, protected(map[string]any{"user_can_push": false}, nil), exactly, "push_protected", false},
		"no merge by us": {gitea, protected(map[string]any{"user_can_merge": false}, nil), client.ProbeInput{}, "merge_protected", false},
		"approvals":      {gitea, protected(map[string]any{"required_approvals": 2}, nil), client.ProbeInput{}, "reviews", true},
		"checks":         {gitea, protected(map[string]any{"enable_status_check": true}, nil), client.ProbeInput{}, "status_checks", true},
		"outdated":       {gitea, protected(nil, map[string]any{"block_on_outdated_branch": true}), client.ProbeInput{}, "outdated", false},
		"protected files": {gitea, protected(nil, map[string]any{"protected_file_patterns": "*.lock"}),
			client.ProbeInput{}, "protected_files", true},
		"branch":  {both, func(*forged) {}, client.ProbeInput{Branch: "nothing"}, "branch", false},
		"private": {both, func(f *forged) { f.host.SetPublic(false) }, client.ProbeInput{}, "read", false},
		"reader": {both, func(f *forged) { f.host.SetPublic(false) },
			client.ProbeInput{ReadCredential: client.Credential{Token: "wrong-reader"}}, "read", false},
		"credential": {both, func(f *forged) { f.step.Repository.Credential.Token = "wrong-token-1234" },
			client.ProbeInput{}, "credential", false},
		"identity": {both, func(f *forged) { f.Change(func(t *githost.Traits) { t.ID = 1 }) }, client.ProbeInput{}, "identity", false},
		"push": {both, func(f *forged) {
			f.host.SetFault(func(w http.ResponseWriter, q *http.Request) bool {
				if strings.Contains(q.URL.String(), "git-receive-pack") {
					w.WriteHeader(403)
					return true
				}
				return false
			})
		}, client.ProbeInput{}, "push", false},
	} {
		for _, kind := range c.kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				b, forge, made := newForgeBench(t, kind)
				b.host.SetPublic(true)
				c.prepare(&forged{b, forge, made, kind})
				var said []string
				r, err := client.Do[client.ProbeInput, client.ProbeResult](t.Context(), b.Client, client.StepProbe, b.step, c.in, nil,
					func(text string) { said = append(said, text) })
				require.NoError(t, err)
				require.Equal(t, c.noted, r.OK)
				var wrong []string
				for _, check := range r.Checks {
					require.Contains(t, said, check.Text)
					switch check.Status {
					case events.CheckLacking:
						require.NotEmpty(t, check.Remedy, check.Text)
						wrong = append(wrong, check.ID)
					case events.CheckNoted:
						wrong = append(wrong, check.ID)
					}
				}
				require.Equal(t, []string{c.check}, wrong, "%+v", r.Checks)
				require.NotContains(t, b.repo.Git(t, "for-each-ref"), "svc-check")
			})
		}
	}
}
