package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"svc/commands"
	"svc/events"
	"svc/sessions"
)

const (
	roleWorkspaces = 1000
	// roleTurn is longer than other turns: Merkle logs are updated once a second, so a turn ends with up
	// to a second of waiting, which would be a third of a short turn.
	roleTurn = 10 * time.Second
)

// A team is a signed-in Owner and a member, whose role the Owner changes back and forth.
type team struct {
	*workspace
	member   events.ID
	cookie   *http.Cookie
	requests [2][]byte // to Maintainer and back to Viewer
	sent     atomic.Int64
}

// newTeams creates a team in each of roleWorkspaces workspaces.
func newTeams(ctx context.Context, db *pgxpool.Pool) (list []*team, err error) {
	log := newLog(db, notifyNobody)
	defer log.Close()
	h := commands.New(log, time.Now)
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now, Log: slog.Default()}
	list = make([]*team, roleWorkspaces)
	var group errgroup.Group
	group.SetLimit(connections / 2)
	for i := range list {
		group.Go(func() (err error) {
			list[i], err = newTeam(ctx, h, people)
			return err
		})
	}
	return list, group.Wait()
}

// newTeam creates a workspace with a second member, and signs its Owner in.
func newTeam(ctx context.Context, h *commands.Handler, people *sessions.Store) (t *team, err error) {
	t = &team{member: events.NewID(time.Now())}
	if t.workspace, err = newWorkspace(ctx, h); err != nil {
		return nil, err
	}
	bob, err := newWorkspace(ctx, h)
	if err != nil {
		return nil, err
	}
	_, err = h.AddMember(ctx,
		commands.AddMember{Meta: t.meta(), Member: t.member, User: bob.owner.ID, Email: bob.owner.Name, Role: events.Viewer})
	if err != nil {
		return nil, err
	}
	session, err := people.Start(ctx, t.owner.ID, t.id, "203.0.113.7", "bench")
	if err != nil {
		return nil, err
	}
	t.cookie = people.Cookie(session)
	for i, role := range []events.Role{events.Maintainer, events.Viewer} {
		body := fmt.Sprintf(`{"role":%q}`, role)
		t.requests[i] = append(rawRequest("PATCH /api/v1/members/"+t.member.String(), "Cookie: "+t.cookie.Name+"="+t.cookie.Value,
			"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))), body...)
	}
	return t, nil
}

// roleChange compares role changes over HTTP, until all followers have caught up, with the
// baseline of lean.go over the same HTTP.
func roleChange(ctx context.Context, s *suite) (result, error) {
	db, teams, err := newTeamsDatabase(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	other, theirs, err := newTeamsDatabase(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer other.Close()
	if _, err := other.Exec(ctx, leanSchema); err != nil {
		return result{}, err
	}
	server, err := s.startRest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	byHand, err := s.startLean(ctx, other.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer byHand.stop()
	return compare(ctx, roleChangeTurn(ctx, server, db, teams), roleChangeTurn(ctx, byHand, nil, theirs))
}

func newTeamsDatabase(ctx context.Context, s *suite) (*pgxpool.Pool, []*team, error) {
	db, err := s.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	teams, err := newTeams(ctx, db)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return db, teams, nil
}

// roleChangeTurn returns a turn of role changes at a service. If db is not nil, the turn ends
// when all followers of its logs have caught up.
func roleChangeTurn(ctx context.Context, server *serviceProcess, db *pgxpool.Pool, teams []*team) turnFunc {
	var next atomic.Int64
	return func() (work, error) {
		callers := newCallers(server.addr)
		defer callers.close()
		from := time.Now()
		changes, err := measureFor(ctx, roleTurn, connections, func(_ context.Context, worker int) error {
			t := teams[next.Add(1)%roleWorkspaces]
			return callers.send(worker, t.requests[t.sent.Add(1)%2], 200)
		})
		if err == nil && db != nil {
			err = awaitCaughtUp(ctx, db)
		}
		return work{changes.done, time.Since(from)}, err
	}
}
