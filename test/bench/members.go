package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
)

// crowd makes a workspace of n members by SQL, on a database of its own.
func (s *site) crowd(ctx context.Context, n int) (*pgxpool.Pool, events.ID, error) {
	db, err := s.database(ctx)
	if err != nil {
		return nil, events.ID{}, err
	}
	log := store.New(db, projections.Inline(), nothing)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return db, events.ID{}, err
	}
	_, err = db.Exec(ctx, `
		insert into users (user_id, workspace_id, name, email, emails, avatar_url, registered_at)
		select md5('u' || n)::uuid, md5('w' || n)::uuid, 'Person ' || n, 'p' || n || '@acme.example', array['p' || n || '@acme.example'], '', now()
		from generate_series(1, $1::int) n`, n)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `
		insert into members (workspace_id, member_id, user_id, email, role, joined_at)
		select $1, md5('m' || n)::uuid, md5('u' || n)::uuid, 'p' || n || '@acme.example', case when n % 100 = 0 then 'Maintainer' else 'Viewer' end, now() - n * interval '1 second'
		from generate_series(1, $2::int) n`, w.id, n)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `vacuum analyze members, users`)
	return db, w.id, err
}

// memberPages are what is asked of a workspace of n members.
func memberPages(n int) map[string]projections.MemberQuery {
	return map[string]projections.MemberQuery{
		"first": {}, "middle": {Offset: n / 2}, "role": {Role: events.Maintainer}, "joined": {OrderBy: projections.MemberByJoined},
		"search": {Q: "person 77"}, "nobody": {Q: "nobody of that name"},
	}
}

// membersPage compares the time of pages and searches of 100,000 members with that
// of the same of 1,000. The slowest of them counts.
func membersPage(ctx context.Context, s *site) (r result, err error) {
	type side struct {
		members   projections.Members
		workspace events.ID
		pages     map[string]projections.MemberQuery
	}
	var sides [2]side
	for i, n := range []int{1000, scaled(100_000)} {
		db, workspace, err := s.crowd(ctx, n)
		if db != nil {
			defer db.Close()
		}
		if err != nil {
			return r, err
		}
		one, err := single(ctx, db)
		if err != nil {
			return r, err
		}
		defer one.Close()
		sides[i] = side{projections.Members{DB: one}, workspace, memberPages(n)}
	}
	turnOf := func(of side, name string) func() (float64, error) {
		q := of.pages[name]
		q.Workspace, q.Limit = of.workspace, 25
		return func() (float64, error) {
			return measure(ctx, 1, func(ctx context.Context, _ int) error { _, _, err := of.members.Page(ctx, q); return err })
		}
	}
	r.Note = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(sides[0].pages)) {
		of, err := compare(ctx, turnOf(sides[0], name), turnOf(sides[1], name))
		if err != nil {
			return r, err
		}
		r.Note[name] = fmt.Sprintf("%.1f", median(of.Ratios))
		if r.Ratios == nil || median(of.Ratios) > median(r.Ratios) {
			r.Ratios = of.Ratios
		}
	}
	return r, nil
}
