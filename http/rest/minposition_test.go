package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/http/fair"
	"svc/http/rest/door"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/farmviews"
	"svc/projections/fold"
	"svc/projections/runviews"
	"svc/proof"
	"svc/sessions"
	"svc/test/world"
)

// Of several servers behind one address, one has reached the position and another answers. Every list waits
// for that one, without a read slot.
func TestListsWaitForServerThatLags(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	run, repo := w.QueueRun(t, p.Workspace), world.NewID()
	_, err = w.Commands.ConnectRepo(t.Context(), commands.ConnectRepo{
		Meta: commands.Meta{Workspace: p.Workspace, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}}},
		Repo: repo, Name: "acme/site", Host: events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example/acme/site.git"},
		Settings: events.RepoSettings{Branch: "main"},
	})
	require.NoError(t, err)
	w.CaughtUp(t)
	lagging := world.Connect(t, w.URL, func(c *pgxpool.Config) { c.MaxConns, c.PrepareConn = 1, fold.CheckServer })
	_, err = lagging.Exec(t.Context(), `create temporary table checkpoints as select workspace_id, view, seq - 1 as seq from checkpoints`)
	require.NoError(t, err)

	log := slog.New(slog.DiscardHandler)
	people := &sessions.Store{DB: w.DB, Secret: []byte("a secret of thirty-two characters"), Now: time.Now, Log: log}
	session, err := people.Start(t.Context(), p.Owner.ID, p.Workspace, "", "")
	require.NoError(t, err)
	s := New(Config{
		Commands: w.Commands, Sessions: people, LastSeen: sessions.NewLastSeen(w.DB, log), Load: func() float64 { return 0 }, Now: time.Now,
		Log: log, Origin: "http://localhost:4000",
		Primary: Primary{
			Members: projections.Members{DB: w.DB}, ServiceAccounts: projections.ServiceAccounts{DB: w.DB}, Jobs: farmviews.Jobs{DB: w.DB},
			Users: projections.Users{DB: w.DB},
		},
		Lists: Lists{
			Runs: runviews.Runs{DB: lagging}, Repos: projections.Repos{DB: lagging},
			Decisions: runviews.Decisions{DB: lagging}, Audit: auditlog.Audit{DB: lagging},
			Insights: runviews.Insights{DB: lagging}, Dashboard: projections.Dashboard{DB: lagging}, Awaiter: w.Follower,
		},
	})
	s.runs.Credentials.Repo = w.Commands.Repo
	api := s.Handler()
	var head int64
	var record events.ID
	err = w.DB.QueryRow(t.Context(), `
		select seq, id from events where workspace_id = $1 order by seq desc limit 1`, p.Workspace).Scan(&head, &record)
	require.NoError(t, err)
	ask := func(path string) *httptest.ResponseRecorder {
		path = strings.NewReplacer(
			"/audit/{id}", "/audit/"+record.String(), "/repos/{id}", "/repos/"+repo.String(), "{id}", run.String()).Replace(path)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, door.Prefix+path, nil)
		r.AddCookie(people.Cookie(session))
		r.Header.Set("X-Svc-Min-Position", strconv.FormatInt(head, 10))
		a := httptest.NewRecorder()
		api.ServeHTTP(a, r)
		return a
	}

	query := map[string]string{"/runs": "?status=active", "/search": "?q=a", "/backlog": "?repo=" + repo.String()}
	asked, answers := 0, make(chan *httptest.ResponseRecorder, 100)
	var all sync.WaitGroup
	for _, r := range routes() {
		if r.Views != nil && r.Intent == nil && !slices.Contains(r.Views, proof.FollowerName) {
			asked++
			all.Go(func() { answers <- ask(r.Path + query[r.Path]) })
		}
	}
	require.Greater(t, asked, 8)
	held := func(name string) int {
		i := slices.IndexFunc(s.Semaphores(), func(b *fair.Semaphore) bool { return b.Bound().Name == name })
		n, _, _ := s.Semaphores()[i].Usage()
		return n
	}
	require.Eventually(t, func() bool { return held("positions") == asked || len(answers) > 0 }, testTimeout, time.Millisecond)
	require.Empty(t, answers)
	require.Eventually(t, func() bool { return held("reads") == 0 }, testTimeout, time.Millisecond)
	_, err = lagging.Exec(t.Context(), `drop table pg_temp.checkpoints`)
	require.NoError(t, err)
	all.Wait()
	for range asked {
		a := <-answers
		require.Equal(t, http.StatusOK, a.Code, a.Body)
	}
}
