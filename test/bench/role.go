package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/sessions"
)

const roleWorkspaces = 1000

// A team is an Owner who is signed in, and the member whose role they change to
// and fro.
type team struct {
	*workspace
	member  events.ID
	cookie  *http.Cookie
	changes [2][]byte // the requests
	turn    atomic.Int64
	seq     atomic.Int64 // of the rows that are written by hand
}

func newTeams(ctx context.Context, db *pgxpool.Pool) (list []*team, err error) {
	log := newLog(db)
	defer log.Close()
	h := commands.New(log, time.Now)
	people := &sessions.Store{DB: db, Secret: []byte(secret), Now: time.Now}
	for range roleWorkspaces {
		t := &team{member: events.NewID(time.Now())}
		if t.workspace, err = newWorkspace(ctx, h); err != nil {
			return nil, err
		}
		bob, err := newWorkspace(ctx, h)
		if err != nil {
			return nil, err
		}
		_, err = h.AddMember(ctx, commands.AddMember{Meta: t.meta(), Member: t.member, User: bob.owner.ID, Email: bob.owner.Name, Role: events.Viewer})
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
			t.changes[i] = append(request("PATCH /api/v1/members/"+t.member.String(), "Cookie: "+t.cookie.Name+"="+t.cookie.Value,
				"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))), body...)
		}
		list = append(list, t)
	}
	return list, nil
}

// byHand writes what a role change comes to, in one batch: the session and the
// membership are looked up, the event and the member's row are written.
func (t *team) byHand(ctx context.Context, db *pgxpool.Pool) error {
	now := time.Now()
	n := t.seq.Add(1)
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(`select user_id from sessions where user_id = $1`, t.owner.ID)
	b.Queue(`select role from members where workspace_id = $1 and user_id = $2`, t.id, t.owner.ID)
	b.Queue(`update logs set head = head + 1, last_at = $2 where workspace_id = $1`, t.id, now)
	b.Queue(`
		insert into plain (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		values ($1, $2::bigint, $3, $1, $2::bigint, 'member.role_changed', 1, $4, '{"actor":{"type":"user"}}', '{"from":"Viewer","to":"Maintainer"}')`,
		t.id, n, events.NewID(now), now)
	b.Queue(`update members set role = $3 where workspace_id = $1 and member_id = $2`, t.id, t.member, events.Viewer)
	b.Queue("commit")
	return db.SendBatch(ctx, b).Close()
}

// roleChange compares a role change over HTTP with the same tables written by
// hand.
func roleChange(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	teams, err := newTeams(ctx, db)
	if err != nil {
		return result{}, err
	}
	other, err := s.database(ctx) // what is written by hand would be no log
	if err != nil {
		return result{}, err
	}
	defer other.Close()
	theirs, err := newTeams(ctx, other)
	if err != nil {
		return result{}, err
	}
	if _, err := other.Exec(ctx, `create table plain (like events including all)`); err != nil {
		return result{}, err
	}
	server, err := s.rest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	callers := newCallers(server.addr)
	defer callers.close()
	var next, nextHand atomic.Int64
	return compare(ctx,
		func() (float64, error) {
			return measure(ctx, connections, func(_ context.Context, worker int) error {
				t := teams[next.Add(1)%roleWorkspaces]
				return callers.send(worker, t.changes[t.turn.Add(1)%2], 200)
			})
		},
		func() (float64, error) {
			return measure(ctx, connections, func(ctx context.Context, _ int) error {
				return theirs[nextHand.Add(1)%roleWorkspaces].byHand(ctx, other)
			})
		})
}
