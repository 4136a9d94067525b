package loop

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/loop/watch"
	testworld "svc/test/world" // this package has a world, too
)

// Whatever a run would do next in a deleted workspace, neither the code host nor the build farm hears of it, and a run of a
// workspace that is restored goes on.
func TestDeletedWorkspaceTakesNoStep(t *testing.T) {
	t.Parallel()
	w := testworld.NewSilent(t)
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(engine.Close)
	var address config.URL
	require.NoError(t, address.UnmarshalText([]byte(engine.URL)))
	s := New(Config{
		DB: w.DB, Commands: w.Commands, Engine: client.Client{URL: address, Secret: "secret"},
		Marker:      NewMarker(w.DB, func(string) bool { return true }, slog.New(slog.DiscardHandler)),
		Credentials: credentials.Store{Repo: w.Commands.Repo},
		MaxActive:   5, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	workspace, repo, owner := testworld.NewID(), testworld.NewID(), testworld.NewID()
	by := events.Actor{Type: events.ByUser, ID: owner, Name: "ada@acme.example"}
	w.Record(t, by, workspace, workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"},
		events.MemberJoined{Member: testworld.NewID(), User: owner, Email: by.Name, Role: events.Owner})
	w.Record(t, by, workspace, repo, events.RepoConnected{
		Name: "acme/web", Host: events.RepoHost{Kind: events.HostGitHub, API: "https://api.example", Clone: "https://example/acme/web.git"},
		Settings: events.RepoSettings{Branch: "main", Implementer: connected(events.ImplementerPatch).Repo.Settings.Implementer, MaxActive: 5},
	})
	runs := map[string]runner{}
	for name, list := range map[string][]events.Event{
		"a step": started, "a job": builds, "a look": builds,
	} {
		run := testworld.NewID()
		w.Record(t, by, workspace, run, append([]events.Event{
			events.RunQueued{Repo: events.Repo{ID: repo, Name: "acme/web"}, IssueNumber: len(runs) + 1, IssueTitle: "Fix it"},
		}, list...)...)
		runs[name] = runner{Scheduler: s, workspace: workspace, run: run, wantsLook: name == "a look"}
	}
	watched := []watch.Run{{Workspace: workspace, Repo: repo, Run: runs["a step"].run, Branch: "run/x", Head: head}}

	m := commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}}
	_, err := w.Commands.DeleteWorkspace(t.Context(), commands.DeleteWorkspace{Meta: m, Name: "Acme"})
	require.NoError(t, err)
	head := func() (n int) {
		require.NoError(t, w.DB.QueryRow(t.Context(), `select head from logs where workspace_id = $1`, workspace).Scan(&n))
		return n
	}
	before := head()
	for name, r := range runs {
		next, err := r.once(t.Context())
		require.NoError(t, err, name)
		require.NotNil(t, next, name)
	}
	_, err = s.watcher.Repo(t.Context(), workspace, repo, watched)
	require.NoError(t, err)
	require.Zero(t, asked.Load())
	require.Equal(t, before, head(), "nor is anything recorded")

	_, err = w.Commands.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: m})
	require.NoError(t, err)
	for n, name := range []string{"a step", "a look"} {
		r := runs[name]
		_, err := r.once(t.Context())
		require.Error(t, err, name)
		require.EqualValues(t, n+1, asked.Load(), name)
	}
	_, err = s.watcher.Repo(t.Context(), workspace, repo, watched)
	require.Error(t, err)
	require.EqualValues(t, 3, asked.Load())
}
