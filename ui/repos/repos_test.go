package repos

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// visit returns a visit of a person with a role.
func visit(role client.YouRole, form url.Values) *page.Visit {
	r := httptest.NewRequest(http.MethodPost, "/w/acme/settings/repositories/7", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetPathValue("workspace", "acme")
	v := &page.Visit{Request: r, Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	v.Workspace.Slug, v.Workspace.You.Role = "acme", role
	_ = v.ParseForm()
	return v
}

func render(t *testing.T, c templ.Component) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, c.Render(t.Context(), &out))
	return out.String()
}

func TestHealth(t *testing.T) {
	t.Parallel()
	active, git := client.RepoRunsStatusActive, client.RepoRunsKindGit
	for _, c := range []struct {
		repo           client.RepoRuns
		lacking        string
		tone           kit.Tone
		word, sentence string
	}{
		{client.RepoRuns{Status: active, Ok: new(true)}, "", kit.Good, "Healthy", "Everything that runs need works."},
		{client.RepoRuns{Status: active, Ok: new(false)}, "The credential may only read.", kit.Bad, "Lacking", "The credential may only read."},
		{client.RepoRuns{Status: active, Ok: new(false)}, "", kit.Bad, "Lacking", "Runs cannot work on it. Its page says why."},
		{client.RepoRuns{Status: client.RepoRunsStatusPaused, PauseReason: new("Freeze.")}, "", kit.Warn, "Paused", "Freeze."},
		{client.RepoRuns{Status: client.RepoRunsStatusDisconnected}, "", kit.Plain, "Disconnected",
			"Its runs stay listed. It can be connected again."},
		{client.RepoRuns{Status: client.RepoRunsStatusUnconnected}, "", kit.Plain, "Unconnected", "Only earlier runs name it."},
	} {
		h := healthOf(c.repo, c.lacking)
		require.Equal(t, []any{c.tone, c.word, c.sentence}, []any{h.tone, h.word, h.sentence})
		kit.Icon(h.icon)
	}
	github := client.RepoRunsKindGithub
	require.Equal(t, []string{"book-marked", "git-branch", "github"}, []string{hostIcon(nil), hostIcon(&git), hostIcon(&github)})
}

func TestListInItsStates(t *testing.T) {
	t.Parallel()
	none := render(t, listView(visit(client.YouRoleOwner, nil), listData{}))
	require.Contains(t, none, "No repository is connected")
	require.Contains(t, none, `href="/w/acme/settings/repositories/new"`)
	viewer := render(t, listView(visit(client.YouRoleViewer, nil), listData{}))
	require.NotContains(t, viewer, "/repositories/new")
	require.Contains(t, viewer, managersOnly)
	some := render(t, listView(visit(client.YouRoleOwner, nil), listData{Repos: []client.RepoRuns{
		{Id: "1", Name: "acme/web", Status: client.RepoRunsStatusActive, Ok: new(true), Active: 3, Terminal: 9},
		{Id: "2", Name: "acme/old", Status: client.RepoRunsStatusUnconnected, Terminal: 2},
	}, Waiting: map[string]int64{"1": 2}}))
	require.Contains(t, some, `Connected <span class="count">1</span>`)
	require.Contains(t, some, "2 wait")
	require.Contains(t, some, "2 finished")
}

func TestWaitingRunsAreCountedByRepository(t *testing.T) {
	t.Parallel()
	approval := client.RunWaitsForMergeApproval
	runs := []client.Run{
		{Repo: client.Repo{Id: "1"}, WaitsFor: &approval},
		{Repo: client.Repo{Id: "1"}, Wait: &client.RunWait{Code: "slot"}}, {Repo: client.Repo{Id: "2"}},
	}
	require.Equal(t, map[string]int64{"1": 2}, countWaiting(runs))
}

// A refused form keeps what was typed, except the credentials.
func TestRefusedConnectionKeepsNoCredential(t *testing.T) {
	t.Parallel()
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"code":"repo_check_failed","message":"See details.","details":{"checks":[
			{"id":"push","status":"lacking","text":"The credential may only read.","remedy":"Give it more.","url":"https://host.example/mend"}]}}`))
	}))
	defer rest.Close()
	form := url.Values{
		"url": {"https://host.example/acme/web"}, "kind": {"github"}, "credential": {"s3cret-1"}, "read-credential": {"s3cret-2"},
	}
	v := visit(client.YouRoleOwner, form)
	v.API = client.NewService(rest.URL).NewSession(v.Request, "acme")
	_, err := connect(v)
	require.ErrorContains(t, err, "nothing was saved")
	shown := render(t, connectView(v, v.Result.(connectForm)))
	require.Contains(t, shown, `value="https://host.example/acme/web"`)
	require.Contains(t, shown, "The credential may only read.")
	require.Contains(t, shown, `href="https://host.example/mend"`)
	require.NotContains(t, shown, "s3cret")
	require.NotContains(t, render(t, connectView(visit(client.YouRoleViewer, nil), connectForm{})), "<form")
}

// That the engine is away is said in the form. What the app cannot show there has an error page.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for code, shown := range map[string]bool{"engine_unavailable": true, "code_host_unavailable": true, "busy": false} {
		r := refusal(&client.Refused{Status: http.StatusServiceUnavailable, Code: code, Message: "Away."})
		require.Equal(t, shown, r != nil, code)
		if shown {
			require.Equal(t, http.StatusConflict, r.Status)
		}
	}
	require.Nil(t, refusal(nil))
	require.Nil(t, refusal(&client.Refused{Status: http.StatusUnauthorized}))
}

func TestRepositoryInItsStates(t *testing.T) {
	t.Parallel()
	d := repoData{RepoDetail: client.RepoDetail{
		Id: "7", Name: "acme/web", Kind: "github", WebUrl: new("https://host.example/acme/web"), Status: client.RepoDetailStatusActive,
		HasCredential: true, Check: &client.Checkup{Ok: true, Checks: []client.RepoCheck{{Status: "ok", Text: "It can be cloned."}}},
	}}
	active := render(t, repoView(visit(client.YouRoleOwner, nil), d))
	for _, text := range []string{"Check again", "Pause…", "Disconnect", "It can be cloned.", `data-confirm-word="acme/web"`, "Add…"} {
		require.Contains(t, active, text)
	}
	viewer := render(t, repoView(visit(client.YouRoleViewer, nil), d))
	require.Contains(t, viewer, managersOnly)
	for _, text := range []string{"Check again", "Pause…", "/credential", "/disconnect"} {
		require.NotContains(t, viewer, text)
	}
	d.Status, d.Pause = client.RepoDetailStatusPaused, &client.Pause{Reason: "Freeze.", By: "ada@acme.example", At: time.Now()}
	paused := render(t, repoView(visit(client.YouRoleOwner, nil), d))
	for _, text := range []string{"Freeze.", "ada@acme.example", "Resume"} {
		require.Contains(t, paused, text)
	}
	d.Status, d.Pause = client.RepoDetailStatusDisconnected, nil
	gone := render(t, repoView(visit(client.YouRoleOwner, nil), d))
	require.Contains(t, gone, "Connect it again")
	require.Contains(t, gone, "url=https%3A%2F%2Fhost.example%2Facme%2Fweb")
	require.NotContains(t, gone, "Save settings")
	old := render(t, unconnectedView(visit(client.YouRoleOwner, nil), client.RepoRuns{Id: "9", Name: "acme/old", Terminal: 2}))
	require.Contains(t, old, "It has 2 runs")
}

func TestPauseHint(t *testing.T) {
	t.Parallel()
	require.Empty(t, pauseHint(client.Pause{}))
	for _, code := range []client.PauseCode{"credential", "identity", "check", "infrastructure"} {
		require.NotEmpty(t, pauseHint(client.Pause{Code: &code}))
	}
}

// The secret of a hook is shown once, to the person who has set it up, and only if the code host does not have it.
func TestHookShowsItsSecretOnce(t *testing.T) {
	t.Parallel()
	v := visit(client.YouRoleOwner, nil)
	d := repoData{RepoDetail: client.RepoDetail{Id: "7", Name: "acme/web"}}
	require.Contains(t, render(t, hookCard(v, d)), "There is no hook")
	d.Hook = &client.RepoHook{Url: "https://svc.example/hooks/1", Deliveries: []client.HookDelivery{
		{At: v.Now, Event: "push", Accepted: true}, {At: v.Now, Event: "issues"},
	}}
	shown := render(t, hookCard(v, d))
	require.Contains(t, shown, "push")
	require.Contains(t, shown, "refused: its signature is wrong")
	require.NotContains(t, shown, "<dialog")
	d.NewHook = &client.NewHook{Url: d.Hook.Url, AtHost: true}
	require.NotContains(t, render(t, hookCard(v, d)), "<dialog")
	d.NewHook = &client.NewHook{Url: d.Hook.Url, Secret: new("s3cret"), Why: new("It may not.")}
	shown = render(t, hookCard(v, d))
	require.Contains(t, shown, "s3cret")
	require.Contains(t, shown, "It may not.")
	require.NotContains(t, render(t, hookCard(visit(client.YouRoleViewer, nil), repoData{RepoDetail: d.RepoDetail})), "<form")
}
