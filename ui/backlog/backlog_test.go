package backlog

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

func render(t *testing.T, role client.YouRole, query string, d pageData) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/w/acme/backlog"+query, nil)
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", role
	var out bytes.Buffer
	require.NoError(t, view(v, d).Render(t.Context(), &out))
	return out.String()
}

// web is the page of a repository with two issues, of which one has a run.
func web() pageData {
	d := pageData{Repos: []client.RepoRuns{{Id: "7", Name: "acme/web"}}}
	d.Repo = client.RepoDetail{Id: "7", Name: "acme/web", Kind: "github", Settings: client.RepoSettings{MaxActive: 2}}
	d.Issues = client.ListBacklogIssue{Total: 2, Items: []client.BacklogIssue{
		{IssueNumber: 2, Title: "Second", Url: "https://host.example/2", Labels: []string{"bug", "Docs"}},
		{IssueNumber: 1, Title: "First", Labels: []string{"bug"}},
	}}
	d.Runs = runsOf{active: 1, byIssue: map[int64]client.Run{
		1: {Id: "r1", IssueNumber: 1, Status: client.RunStatusCoding, StageLabel: "Implementing"},
	}}
	return d
}

func TestIssues(t *testing.T) {
	t.Parallel()
	shown := render(t, client.YouRoleOwner, "?repo=7", web())
	require.Contains(t, shown, `href="https://host.example/2"`)
	require.Contains(t, shown, `href="/w/acme/runs/r1"`)
	require.Contains(t, shown, `id="queue-2"`)
	require.NotContains(t, shown, `id="queue-1"`, "its run is active")
	require.Contains(t, shown, "/w/acme/backlog/runs?repo=7&amp;issues=2,1")
	viewer := render(t, client.YouRoleViewer, "?repo=7", web())
	require.Contains(t, viewer, "Only an Owner or Maintainer can queue issues.")
	require.NotContains(t, viewer, `data-press="q"`)
	require.NotContains(t, viewer, `type="checkbox"`)
}

func TestStatesWithoutIssues(t *testing.T) {
	t.Parallel()
	require.Contains(t, render(t, client.YouRoleOwner, "", pageData{}), "/w/acme/settings/repositories/new")
	require.NotContains(t, render(t, client.YouRoleViewer, "", pageData{}), "/w/acme/settings/repositories/new")
	d := web()
	d.Issues = client.ListBacklogIssue{}
	require.Contains(t, render(t, client.YouRoleOwner, "?repo=7", d), "No open issues")
	require.Contains(t, render(t, client.YouRoleOwner, "?repo=7&q=x", d), "No issues match")
	for code, text := range map[string]string{
		"engine_unavailable": "The engine does not answer", "code_host_unavailable": "The code host does not answer",
		"repo_credential_refused": "The code host refuses",
	} {
		d.Away = &client.Refused{Code: code, Message: "It said so."}
		require.True(t, isAway(d.Away))
		require.Contains(t, render(t, client.YouRoleOwner, "?repo=7", d), text)
	}
	d.Away, d.Repo.Kind = nil, "git"
	d.Issues.Items = d.Runs.written()
	git := render(t, client.YouRoleOwner, "?repo=7", d)
	require.Contains(t, git, "Write an issue")
	require.Contains(t, git, `href="/w/acme/runs/r1"`)
	d = web()
	d.Repo.Pause = &client.Pause{Reason: "Freeze."}
	paused := render(t, client.YouRoleOwner, "?repo=7", d)
	require.Contains(t, paused, "Freeze.")
	require.NotContains(t, paused, `id="queue-2"`)
}

func TestProspect(t *testing.T) {
	t.Parallel()
	d := web()
	require.Equal(t, "A queued issue begins at once: 1 of 2 places are used.", d.prospect())
	d.Runs.active = 2
	require.Equal(t, "A queued issue waits for a place: 2 of 2 are used.", d.prospect())
	d.Runs.active, d.Runs.waiting = 3, 1
	require.Equal(t, "A queued issue waits for a place: 2 of 2 are used, and 1 waits before it.", d.prospect())
	d.Repo.Pause = &client.Pause{}
	require.Contains(t, d.prospect(), "paused")
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/w/acme/backlog", nil)
	r.SetPathValue("workspace", "acme")
	v, one, two := &page.Visit{Request: r}, client.Run{Id: "r1"}, client.Run{Id: "r2"}
	n, err := outcome(v, []client.Run{one, two}, nil)
	require.NoError(t, err)
	require.Equal(t, page.Notice{Text: "2 issues are queued.", Href: "/w/acme/runs", Label: "Open the runs"}, n)
	n, err = outcome(v, []client.Run{one}, nil)
	require.NoError(t, err)
	require.Equal(t, page.Notice{Text: "1 issue is queued.", Href: "/w/acme/runs/r1", Label: "Open its run"}, n)
	n, err = outcome(v, []client.Run{one}, []string{"#7: It has a run."})
	require.NoError(t, err)
	require.Equal(t, page.Notice{Text: "1 issue is queued. #7: It has a run.", Bad: true, Href: "/w/acme/runs", Label: "Open the runs"}, n)
	_, err = outcome(v, nil, []string{"#7: It has a run."})
	require.ErrorContains(t, err, "#7: It has a run.")
	_, err = outcome(v, nil, nil)
	require.ErrorContains(t, err, "Select the issues")
}

func TestLabels(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/w/acme/backlog?label=gone", nil)
	require.Equal(t, []string{"bug", "Docs", "gone"}, web().labels(&page.Visit{Request: r}))
}

func TestRunText(t *testing.T) {
	t.Parallel()
	approval := client.RunWaitsForMergeApproval
	for want, r := range map[string]client.Run{
		"Merged":             {Status: client.RunStatusMerged, StageLabel: "Merge"},
		"Waits for a person": {Status: client.RunStatusAwaitingApproval, WaitsFor: &approval},
		"Waits for a place":  {Status: client.RunStatusQueued, StageLabel: "Queued", Wait: &client.RunWait{Code: "slot"}},
		"Merge, waits":       {Status: client.RunStatusMerging, StageLabel: "Merge", Wait: &client.RunWait{Code: "lane"}},
		"Implementing":       {Status: client.RunStatusCoding, StageLabel: "Implementing"},
	} {
		require.Equal(t, want, runText(r))
	}
}
