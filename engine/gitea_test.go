//go:build gitea

package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/engine/client"
	"svc/engine/codehost"
	"svc/test/githost"
)

// TestRealGitea takes a run through a real Gitea that SVC_TEST_GITEA_URL names, with user and password: go test -tags gitea
// ./engine -run TestRealGitea. The run has a token with the scopes that docs/runs.md tells people to give it.
func TestRealGitea(t *testing.T) {
	t.Parallel()
	base, err := url.Parse(os.Getenv("SVC_TEST_GITEA_URL"))
	require.NoError(t, err)
	require.NotNil(t, base.User, "SVC_TEST_GITEA_URL names no Gitea with user and password")
	user := base.User
	base.User = nil
	ask := func(method, path string, in, out any) {
		t.Helper()
		body, err := json.Marshal(in)
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), method, base.JoinPath("api/v1").String()+path, bytes.NewReader(body))
		require.NoError(t, err)
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Less(t, res.StatusCode, 300, path)
		require.NoError(t, json.NewDecoder(res.Body).Decode(out))
	}
	name := fmt.Sprintf("run-%d", time.Now().UnixNano())
	var given struct{ SHA1 string }
	scopes := []string{"write:repository", "write:issue"}
	ask("POST", "/users/"+user.Username()+"/tokens", map[string]any{"name": name, "scopes": scopes}, &given)
	token := given.SHA1
	var made struct {
		ID       int64
		FullName string `json:"full_name"`
		CloneURL string `json:"clone_url"`
	}
	ask("POST", "/user/repos", map[string]any{
		"name": name, "auto_init": true, "default_branch": "main",
	}, &made)
	var issue struct{ Number int }
	ask("POST", "/repos/"+made.FullName+"/issues", map[string]any{"title": "It is broken", "body": "Please mend it."}, &issue)

	b := newBench(t)
	clone, err := url.Parse(made.CloneURL)
	require.NoError(t, err)
	clone.User = user
	fetch := func() string {
		b.repo.Git(t, "fetch", "--quiet", "--prune", clone.String(), "+refs/heads/*:refs/heads/*")
		return b.repo.Head(t, "main")
	}
	b.step.Repository = client.Repository{
		ID: "real", Kind: "gitea", Name: made.FullName, API: base.JoinPath("api/v1").String(), Clone: made.CloneURL,
		HostID: fmt.Sprint(made.ID), Credential: client.Credential{Token: config.Secret(token)},
	}
	from := fetch()
	probed := b.probe(t, client.ProbeInput{})
	require.True(t, probed.OK, "%+v", probed.Checks)
	require.Equal(t, []string{made.FullName, fmt.Sprint(made.ID), "main"}, []string{probed.Name, probed.HostID, probed.DefaultBranch})
	require.Equal(t, "Please mend it.", b.issue(t, client.IssueInput{Number: issue.Number, Branch: "main"}).Issue.Body)
	require.Equal(t, 1, b.issues(t, client.IssuesInput{PerPage: 10}).Total)

	work := b.committed(t, from, githost.Files{"a": "2\n"})
	pr := b.propose(t, proposeInput(work.Head, issue.Number))
	require.Equal(t, 2, pr.Number)
	require.Equal(t, pr, b.propose(t, proposeInput(work.Head, issue.Number)))
	_, err = b.tryIssue(client.IssueInput{Number: pr.Number, Branch: "main"})
	requireCode(t, err, client.Permanent, client.CodeNoIssue)
	closing := client.TidyInput{Branch: "run/1", PullRequest: pr.Number, Close: true}
	require.Equal(t, "closed", b.tidy(t, closing).PullRequest)
	require.Equal(t, pr, b.propose(t, proposeInput(work.Head, issue.Number)), "found though it is closed")
	looked := b.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: pr.Number}).PullRequest
	require.Equal(t, "closed", looked.State)
	require.NotEmpty(t, looked.By)
	other := proposeInput(work.Head, issue.Number)
	other.Marker = "svc-run r2"
	pr = b.propose(t, other)
	require.Equal(t, 3, pr.Number, "a second one after the first was closed")

	candidate := b.ready(t, readyInput(work.Head))
	in := mergeInput(work.Head, candidate)
	in.Landing, in.PullRequest = "host", pr.Number
	host, err := codehost.New(b.step.Repository, b.steps.network)
	require.NoError(t, err)
	wrong := in
	wrong.Head = from
	// R20: it refuses for seconds after the pull request was opened, and after each refusal.
	patiently := func(merge func() error) (err error) {
		for tries := range 10 {
			<-time.After(5 * time.Second)
			if err = merge(); !coded(err, client.CodeHostRule) {
				t.Log("tries:", tries+1)
				return err
			}
		}
		return err
	}
	requireCode(t, patiently(func() error { return host.Merge(t.Context(), wrong) }), client.Permanent, client.CodeHeadMoved)
	var merged client.MergeResult
	require.NoError(t, patiently(func() (err error) {
		merged, err = b.tryMerge(in)
		return err
	}))
	require.NoError(t, host.Merge(t.Context(), in), "already merged")
	require.Equal(t, []any{candidate.Tree, from, false}, []any{merged.Tree, merged.FirstParent, merged.Outside})
	require.Equal(t, merged, b.merge(t, in))
	require.Equal(t, merged.Commit, fetch())
	watched := do[client.WatchInput, client.WatchResult](t, b, client.StepWatch, client.WatchInput{Folder: "run"})
	require.ElementsMatch(t, []int{2, 3}, watched.Closed)
	tidyIn := client.TidyInput{
		Branch: "run/1", Head: work.Head, Lane: "svc-lane/1", PullRequest: pr.Number, Issue: issue.Number,
		Marker: "svc-run r2", Comment: "Merged.",
	}
	require.Equal(t, client.TidyResult{PullRequest: "merged", Branch: "deleted"}, b.tidy(t, tidyIn))
	require.Equal(t, "merged", b.look(t, client.LookInput{Branch: "run/1", Base: "main", PullRequest: pr.Number}).PullRequest.State)
	var comments []struct{ Body string }
	ask("GET", fmt.Sprintf("/repos/%s/issues/%d/comments", made.FullName, issue.Number), nil, &comments)
	require.Len(t, comments, 2, "one for each marker")
	require.True(t, strings.HasPrefix(comments[1].Body, "Merged."))
	fetch()
	require.Empty(t, b.repo.Head(t, "run/1"))
	var statuses []struct{ Status, Context string }
	ask("GET", "/repos/"+made.FullName+"/commits/"+work.Head+"/statuses?sort=oldest", nil, &statuses)
	require.Equal(t, "[{pending svc/run} {success svc/run}]", fmt.Sprint(statuses))

	conflicting := commitInput(from) // R20: and for ever on a conflict
	conflicting.Branch = "run/2"
	second := b.commit(t, conflicting, b.change(t, from, githost.Files{"a": "3\n"}))
	propose := proposeInput(second.Head, 0)
	propose.Branch, propose.Marker = "run/2", "svc-run r3"
	in.PullRequest, in.Head = b.propose(t, propose).Number, second.Head
	for range 3 {
		<-time.After(5 * time.Second)
		refused := requireCode(t, host.Merge(t.Context(), in), client.Transient, client.CodeHostRule)
		require.Contains(t, refused.Message, "Please try again later")
	}
}
