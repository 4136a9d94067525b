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
	"svc/test/githost"
)

// TestRealGitea takes a run through a Gitea that SVC_TEST_GITEA_URL names, with a token of its user that may do everything in
// SVC_TEST_GITEA_TOKEN.
func TestRealGitea(t *testing.T) {
	t.Parallel()
	base, err := url.Parse(os.Getenv("SVC_TEST_GITEA_URL"))
	if err != nil || base.Host == "" {
		t.Skip("SVC_TEST_GITEA_URL names no Gitea")
	}
	token := os.Getenv("SVC_TEST_GITEA_TOKEN")
	ask := func(method, path string, in, out any) {
		t.Helper()
		body, err := json.Marshal(in)
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), method, base.JoinPath("api/v1").String()+path, bytes.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "token "+token)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Less(t, res.StatusCode, 300, path)
		require.NoError(t, json.NewDecoder(res.Body).Decode(out))
	}
	var made struct {
		ID       int64
		FullName string `json:"full_name"`
		CloneURL string `json:"clone_url"`
	}
	ask("POST", "/user/repos", map[string]any{
		"name": fmt.Sprintf("run-%d", time.Now().UnixNano()), "auto_init": true, "default_branch": "main",
	}, &made)
	var issue struct{ Number int }
	ask("POST", "/repos/"+made.FullName+"/issues", map[string]any{"title": "It is broken", "body": "Please mend it."}, &issue)

	b := newBench(t)
	clone, err := url.Parse(made.CloneURL)
	require.NoError(t, err)
	withToken := *clone
	withToken.User = url.UserPassword("x", token)
	fetch := func() string {
		b.repo.Git(t, "fetch", "--quiet", "--prune", withToken.String(), "+refs/heads/*:refs/heads/*")
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
	var merged client.MergeResult
	tries := 0
	require.Eventually(t, func() bool {
		tries++
		var err error
		if merged, err = b.tryMerge(in); err != nil {
			requireCode(t, err, client.Transient, client.CodeHostRule)
		}
		return err == nil
	}, time.Minute, 5*time.Second)
	t.Log("tries to merge:", tries)
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
}
