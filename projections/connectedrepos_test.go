package projections_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/runviews"
	"svc/test/world"
)

var (
	web = events.Repo{ID: world.NewID(), Name: "acme/web"}
	api = events.Repo{ID: world.NewID(), Name: "acme/api"}
)

// queueRun queues a run, with events after that, and waits until the views have it.
func queueRun(t *testing.T, w *world.World, workspace events.ID, repo events.Repo, issue int, more ...events.Event) {
	t.Helper()
	w.Record(t, world.System, workspace, world.NewID(), append([]events.Event{events.RunQueued{Repo: repo, IssueNumber: issue}}, more...)...)
	w.CaughtUp(t)
}

func TestConnectedRepos(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, site, gone := world.NewID(), world.NewID(), world.NewID()
	by := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "mia@acme.example"}
	host := events.RepoHost{Kind: events.HostGitHub, API: "https://api.github.com", Web: "https://github.com/acme/site",
		Clone: "https://github.com/acme/site.git"}
	settings := events.RepoSettings{Branch: "main", MaxActive: 5, RequiredJobs: []events.RequiredJob{
		{Name: "test", Steps: []events.JobStep{{Name: "test", Run: "true"}}, Secrets: []string{"A", "B"}},
	}}
	connected := events.RepoConnected{Name: "acme/site", Host: host, Credential: world.NewID(), Settings: settings}
	w.Record(t, by, workspace, site, connected)
	w.Record(t, by, workspace, gone, connected, events.RepoDisconnected{Name: "acme/site"})
	queueRun(t, w, workspace, events.Repo{ID: site, Name: "acme/site"}, 1)
	queueRun(t, w, workspace, web, 2)
	v := projections.Repos{DB: w.DB}
	get := func() projections.Repo {
		t.Helper()
		w.CaughtUp(t)
		repo, ok, err := v.Get(t.Context(), workspace, site)
		require.NoError(t, err)
		require.True(t, ok)
		return repo
	}
	list := func() []projections.ListedRepo {
		t.Helper()
		w.CaughtUp(t)
		list, err := v.List(t.Context(), workspace)
		require.NoError(t, err)
		return list
	}

	repo := get()
	require.Equal(t, projections.RepoActive, repo.Status)
	require.Equal(t, settings, repo.Settings)
	require.Equal(t, []bool{true, false}, []bool{repo.HasCredential, repo.HasReadCredential})
	require.Nil(t, repo.OK)
	require.Equal(t, []projections.ListedRepo{
		{ID: site, Name: "acme/site", Status: "active", Kind: "github", Web: host.Web, Branch: "main", ConnectedAt: &repo.ConnectedAt, Active: 1},
		{ID: web.ID, Name: "acme/web", Status: "unconnected", Active: 1},
	}, list(), "one that was disconnected without runs is left out")
	n, err := v.Count(t.Context(), workspace)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	checks := []events.RepoCheck{{Check: "push", Status: events.CheckLacking, Text: "It may not push."}}
	moved, other := host, settings
	moved.Web, moved.Clone, other.Branch = "https://github.com/acme/home", "https://github.com/acme/home.git", "trunk"
	w.Record(t, by, workspace, site, events.RepoChecked{Checks: checks}, events.RepoSettingsChanged{From: settings, To: other},
		events.RepoCredentialReplaced{Which: events.ReadCredential, Value: world.NewID()},
		events.RepoRenamed{From: "acme/site", To: "acme/home", Host: moved},
		events.RepoPaused{Reason: "It may not push.", Code: events.PauseUnhealthy})
	repo = get()
	require.Equal(t, []any{"acme/home", moved.Clone, "trunk", false, checks}, []any{repo.Name, repo.Clone, repo.Settings.Branch,
		*repo.OK, repo.Checks})
	require.True(t, repo.HasReadCredential)
	compared, err := fold.Compare(t.Context(), w.DB, projections.Followed(), workspace, fold.NoPause)
	require.NoError(t, err)
	require.Empty(t, compared.Differences)
	require.Equal(t, []any{projections.RepoPaused, events.PauseUnhealthy, "It may not push.", by.Name},
		[]any{repo.Status, repo.PauseCode, repo.PauseReason, repo.PausedBy})
	sites, err := v.Sites(t.Context(), workspace, []events.ID{site, web.ID})
	require.NoError(t, err)
	require.Equal(t, map[events.ID]projections.RepoSite{site: {ID: site, Kind: events.HostGitHub, Web: moved.Web}}, sites)

	w.Record(t, by, workspace, site, events.RepoResumed{}, events.RepoDisconnected{Name: "acme/home"})
	repo = get()
	require.Equal(t, []any{projections.RepoDisconnected, "", false}, []any{repo.Status, repo.PauseReason, repo.HasCredential})
	require.Equal(t, "disconnected", list()[0].Status, "its runs are still there")
	_, ok, err := v.Get(t.Context(), world.NewID(), site)
	require.NoError(t, err)
	require.False(t, ok)
	runs, err := runviews.Runs{DB: w.DB}.ActiveOf(t.Context(), workspace, site, []int{1, 2})
	require.NoError(t, err)
	require.Len(t, runs, 1)
}

func TestReposListsRepositoriesOfRuns(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace := world.NewID()
	renamed := events.Repo{ID: web.ID, Name: "acme/site"}
	queueRun(t, w, workspace, web, 1)
	queueRun(t, w, workspace, api, 2, events.RunCancelled{Repo: api.ID})
	queueRun(t, w, world.NewID(), events.Repo{ID: world.NewID(), Name: "other/one"}, 1)
	list, err := projections.Repos{DB: w.DB}.List(t.Context(), workspace)
	require.NoError(t, err)
	require.Equal(t, []projections.ListedRepo{
		{ID: api.ID, Name: "acme/api", Status: projections.RepoUnconnected, Terminal: 1},
		{ID: web.ID, Name: "acme/web", Status: projections.RepoUnconnected, Active: 1},
	}, list)
	queueRun(t, w, workspace, renamed, 3)
	list, err = projections.Repos{DB: w.DB}.List(t.Context(), workspace)
	require.NoError(t, err)
	require.Equal(t, projections.ListedRepo{ID: web.ID, Name: "acme/site", Status: projections.RepoUnconnected, Active: 2}, list[1])
}
