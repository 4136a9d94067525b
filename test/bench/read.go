package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/projections"
	"svc/projections/runviews"
)

// A reader is a workspace with runs, and a service token that may read them.
type reader struct {
	workspace events.ID
	token     bearer.ServiceToken
}

// newReader creates a workspace with n runs, some of them active.
func newReader(ctx context.Context, db *pgxpool.Pool, n, active int) (*reader, error) {
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return nil, err
	}
	r := &reader{w.id, bearer.NewServiceToken()}
	_, err = w.handler.CreateServiceAccount(ctx, commands.CreateServiceAccount{
		Meta: w.meta(), Account: events.NewID(time.Now()), Token: r.token, Name: "reader", Scopes: []events.Scope{events.ReadAPI},
	})
	if err != nil {
		return nil, err
	}
	return r, fillRuns(ctx, db, w.id, n, active)
}

// fillRuns inserts n runs into the view, the first of them active.
func fillRuns(ctx context.Context, db *pgxpool.Pool, workspace events.ID, n, active int) error {
	repo := events.NewID(time.Now())
	_, err := db.Exec(ctx, `
		insert into runs (workspace_id, run_id, repo_id, repo_name, issue_number, issue_title, stage, status, active, pr_number,
			cost_cents, created_at, updated_at, finished_at, waits_for, round, job_rounds, branch, detail, budget_cents, budget_compute_ms,
				budget_rounds, wait_code, wait_detail, open_jobs, tidied)
		select $1, gen_random_uuid(), $2, 'acme/web', i, 'Fix date parsing ' || i, i % 7, case
			when i <= $4 then 'coding' else 'merged' end, i <= $4, i,
			112, now() - i * interval '1 second', now(), case
				when i > $4 then now() - i * interval '1 second' end, '', 1, '{}', 'run/' || i, '{}', 0, 0, 0, '', '', 0, i > $4
		from generate_series(1, $3::int) i`, workspace, repo, n, active)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, `insert into run_counts (workspace_id, repo_id, active, terminal) values ($1, $2, $3, $4)`, workspace, repo, active,
		n-active)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, `vacuum analyze runs`)
	return err
}

func (r *reader) authorization() string { return "Authorization: Bearer " + r.token.Reveal() }

// A workspace is a workspace with its Owner.
type workspace struct {
	id      events.ID
	owner   events.Actor
	handler *commands.Handler
}

// newWorkspace registers a user, which creates their workspace.
func newWorkspace(ctx context.Context, h *commands.Handler) (*workspace, error) {
	now := time.Now()
	w := &workspace{id: events.NewID(now), handler: h}
	user := events.NewID(now)
	name := fmt.Sprintf("w%d", rand.Uint64())
	w.owner = events.Actor{Type: events.ByUser, ID: user, Name: name + "@acme.example"}
	_, err := h.RegisterUser(ctx, commands.RegisterUser{
		Meta: w.meta(), User: user, Member: events.NewID(now), Name: "Ann", Emails: []string{w.owner.Name},
		WorkspaceName: "Acme", WorkspaceSlug: name,
		Account: events.UserAccountLinked{User: user, Provider: "github", Account: name, Login: "ann"},
	})
	return w, err
}

func (w *workspace) meta() commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: w.owner, Origin: events.FromAPI}, Workspace: w.id}
}

// listRequest returns a request for a page of active runs.
func (r *reader) listRequest() []byte {
	return rawRequest("GET /api/v1/runs?status=active", r.authorization())
}

// plainRead makes the queries that the list of runs needs, without HTTP.
func (r *reader) plainRead(db *pgxpool.Pool) func(context.Context, int) error {
	accounts, runs := projections.ServiceAccounts{DB: db}, runviews.Runs{DB: db}
	return func(ctx context.Context, _ int) error {
		if found, err := accounts.Tokens(ctx, []events.Fingerprint{r.token.Fingerprint()}); err != nil || len(found) == 0 {
			return fmt.Errorf("token: %d, %w", len(found), err)
		}
		_, _, err := runs.Page(ctx, runviews.RunQuery{Workspace: r.workspace, Active: true, Limit: 25})
		return err
	}
}

// readRuns compares the list of runs over HTTP with its queries alone.
func readRuns(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	r, err := newReader(ctx, db, 10_000, 1000)
	if err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	callers := newCallers(server.addr)
	defer callers.close()
	ask, read := r.listRequest(), r.plainRead(db)
	return compare(ctx,
		func() (work, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error { return callers.send(worker, ask, 200) })
		},
		func() (work, error) { return measure(ctx, connections, read) })
}

// readGrowth compares the time of a page in a workspace of a million runs with that in
// one of a hundred.
func readGrowth(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	few, err := newReader(ctx, db, 100, 50)
	if err != nil {
		return result{}, err
	}
	many, err := newReader(ctx, db, 1_000_000, 100_000)
	if err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	callers := newCallers(server.addr)
	defer callers.close()
	newTurn := func(r *reader) turnFunc {
		ask := r.listRequest()
		return func() (work, error) {
			return measure(ctx, 8, func(_ context.Context, worker int) error { return callers.send(worker, ask, 200) })
		}
	}
	return compare(ctx, newTurn(few), newTurn(many))
}

// poll compares a request for an unchanged dashboard with a check of the token alone.
func poll(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	r, err := newReader(ctx, db, 1000, 500)
	if err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	callers := newCallers(server.addr)
	defer callers.close()
	tag, err := stableTag(ctx, server.addr, r.authorization())
	if err != nil {
		return result{}, err
	}
	unchanged := rawRequest("GET /api/v1/dashboard", r.authorization(), "If-None-Match: "+tag)
	checked := rawRequest("GET /api/v1/members", r.authorization()) // is refused to tokens once they are checked
	return compare(ctx,
		func() (work, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error { return callers.send(worker, unchanged, 304) })
		},
		func() (work, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error { return callers.send(worker, checked, 403) })
		})
}

// stableTag returns the ETag of the dashboard once it has not changed for two seconds: a service that has just
// started does not know the state of the engine yet.
func stableTag(ctx context.Context, addr, authorization string) (tag string, err error) {
	for since := time.Now(); time.Since(since) < 2*time.Second; <-time.After(100 * time.Millisecond) {
		now, err := dashboardTag(ctx, addr, authorization)
		if err != nil {
			return "", err
		}
		if now != tag {
			tag, since = now, time.Now()
		}
	}
	return tag, nil
}

// dashboardTag returns the current ETag of the dashboard.
func dashboardTag(ctx context.Context, addr, authorization string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/dashboard", nil)
	if err != nil {
		return "", err
	}
	name, value, _ := strings.Cut(authorization, ": ")
	r.Header.Set(name, value)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if tag := res.Header.Get("ETag"); tag != "" {
		return tag, nil
	}
	return "", fmt.Errorf("dashboard: status %d without an ETag", res.StatusCode)
}

// idleMemoryLimit limits the memory of the Go runtime in an idle process. Code and other
// mappings come on top.
const idleMemoryLimit = "GOMEMLIMIT=24MiB"

// idle measures memory and start of a service without requests. The ratio is that of the worse of both to its goal.
func idle(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	var mib, took []float64
	var r result
	for range *rounds {
		server, err := s.startRest(ctx, db.Config().ConnString(), idleMemoryLimit)
		if err != nil {
			return r, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(*turn):
		}
		m, err := server.memory()
		server.stop()
		if err != nil {
			return r, err
		}
		mib, took = append(mib, m), append(took, float64(server.startupTime.Milliseconds()))
		r.Ratios = append(r.Ratios, max(m/40, float64(server.startupTime.Milliseconds())/300))
	}
	r.Note = map[string]any{"MiB": int(median(mib)), "ms": int(median(took))}
	return r, ctx.Err()
}
