package plans_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/loop"
)

// runStepRows are of queued runs that wait for a place.
const runStepRows = `
	insert into run_steps (workspace_id, run_id, repo_id, due_at, code)
	select $acme, id('q', n), case when n % 2 = 0 then id('p', 1) else $repo end, 'infinity', case when n % 10 = 0 then 'slot' else '' end
	from generate_series(1, $waiting) n`

// A mover is a scheduler of runs whose engine is away.
type mover struct {
	*commands.Handler
	look func(context.Context, events.ID, events.ID)
	p    *process
	db   *pgxpool.Pool
	repo events.ID
}

// startLoop begins a scheduler, and connects a repository.
func (p *process) startLoop(t *testing.T, w *watcher) *mover {
	t.Helper()
	m := &mover{Handler: commands.New(p.log, func() time.Time { return epoch }), p: p, db: w.pool(t, p.url), repo: newID()}
	marker := loop.NewMarker(m.db, always, quiet)
	p.marker.Store(marker)
	nowhere, err := config.ParseURL("http://127.0.0.1:1")
	require.NoError(t, err)
	s := loop.New(loop.Config{
		DB: m.db, Marker: marker, Events: p.log, Commands: m.Handler, Engine: client.Client{URL: nowhere},
		Credentials: credentials.Store{Repo: m.Handler.Repo}, MaxActive: 100, Leads: always,
		Ready: func() bool { return true }, Now: time.Now, Log: quiet,
	})
	m.look = s.Look
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	done[commands.Result](t)(m.ConnectRepo(t.Context(), commands.ConnectRepo{
		Meta: p.owner.in(p.acme), Repo: m.repo, Name: "acme/tools",
		Host: events.RepoHost{Kind: events.HostGit, Clone: "https://code.example/acme/tools.git"}, Settings: events.RepoSettings{Branch: "main"},
	}))
	return m
}

// moveRun has a run take a place, wait for the engine, and be tidied up.
func (m *mover) moveRun(t *testing.T, round int) {
	t.Helper()
	ctx, ok, owner, run := t.Context(), done[commands.Result](t), m.p.owner.in(m.p.acme), newID()
	ok(m.QueueRun(ctx, commands.QueueRun{
		Meta: owner, Run: run, Repo: events.Repo{ID: m.repo, Name: "acme/tools"}, IssueNumber: 800_000 + round, IssueTitle: "Sharpen",
	}))
	ok(m.PauseRepo(ctx, commands.PauseRepo{Meta: owner, Repo: m.repo, Reason: "A freeze."}))
	ok(m.ResumeRepo(ctx, commands.ResumeRepo{Meta: owner, Repo: m.repo}))
	m.await(t, run, "it waits for the engine", `select count(*) > 0 from run_steps where run_id = $1 and code = 'engine_away'`)
	ok(m.CancelRun(ctx, commands.CancelRun{Meta: owner, Run: run}))
	m.await(t, run, "it is forgotten", `select count(*) = 0 from run_steps where run_id = $1`)
	m.look(ctx, m.p.acme, m.repo)
	for _, s := range m.byTheClock(t) {
		_, err := m.db.Exec(ctx, s.sql, s.args...)
		require.NoError(t, err, s.at)
	}
}

func (m *mover) await(t *testing.T, run events.ID, what, question string) {
	t.Helper()
	require.Eventually(t, func() (yes bool) {
		require.NoError(t, m.p.db.QueryRow(t.Context(), question, run).Scan(&yes))
		return yes
	}, patience, 20*time.Millisecond, what)
}

// An asked is a statement with its arguments.
type asked struct {
	written
	args []any
}

// byTheClock returns the statements of the loop for which a test would have to wait, or need an engine: those of renewals,
// sweeps, looks at code hosts and estimates.
func (m *mover) byTheClock(t *testing.T) (list []asked) {
	t.Helper()
	args := map[string][]any{
		"set claimed_until = now() + $4": {m.p.acme, newID(), newID(), 15 * time.Second},
		"from runs r where not tidied":   nil,
		"where active and branch":        nil,
		"from outcomes where":            {m.p.acme, 200},
		"(active or finished_at > $4)":   {m.p.acme, m.repo, 7, epoch},
		"insert into hook_deliveries":    {m.p.acme, m.repo, newID().String(), "push", true, 19},
	}
	for part, given := range args {
		n := len(list)
		for _, s := range append(writtenIn(t, "loop"), writtenIn(t, "http/hooks")...) {
			if strings.Contains(folded(s.sql), part) {
				list = append(list, asked{s, given})
			}
		}
		require.Len(t, list, n+1, part)
	}
	return list
}
