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
	"svc/projections"
)

// newLargeWorkspace creates a workspace of n members by SQL, in a new database.
func (s *suite) newLargeWorkspace(ctx context.Context, n int) (*pgxpool.Pool, events.ID, error) {
	db, err := s.database(ctx)
	if err != nil {
		return nil, events.ID{}, err
	}
	log := newLog(db, notifyNobody)
	defer log.Close()
	w, err := newWorkspace(ctx, commands.New(log, time.Now))
	if err != nil {
		return db, events.ID{}, err
	}
	_, err = db.Exec(ctx, `
		insert into users (user_id, workspace_id, name, email, emails, avatar_url, registered_at)
		select md5('u' || n)::uuid, md5('w' || n)::uuid, 'Person ' || n, 'p' || n || '@acme.example', array['p' || n || '@acme.example'], '',
			now()
		from generate_series(1, $1::int) n`, n)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `
		insert into members (workspace_id, member_id, user_id, email, name, role, joined_at, name_key)
		select $1, md5('m' || n)::uuid, md5('u' || n)::uuid, 'p' || n || '@acme.example', 'Person ' || n,
			case when n % 20 = 0 then 'Maintainer' else 'Viewer' end, now() - n * interval '1 second', 'person ' || n
		from generate_series(1, $2::int) n`, w.id, n)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `
		insert into member_words (workspace_id, word_id, member_id, name_key, word)
		select workspace_id, member_id || '/' || n, member_id, name_key, word from members,
			unnest(array[name_key, substr(name_key, 8), email, split_part(email, '@', 2)]) with ordinality as t (word, n)
		where workspace_id = $1 and name <> '' on conflict do nothing`, w.id)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `
		insert into member_counts (workspace_id, role, members)
		select workspace_id, role, count(*) from members where workspace_id = $1 group by 1, 2
		on conflict (workspace_id, role) do update set members = excluded.members`, w.id)
	if err != nil {
		return db, w.id, err
	}
	_, err = db.Exec(ctx, `vacuum analyze members, member_words, member_counts, users`)
	return db, w.id, err
}

// memberQueries returns pages and searches by name, which fill a page unless they match nobody.
// middle is the cursor of a member in the middle.
func memberQueries(middle *projections.MemberCursor) map[string]projections.MemberQuery {
	return map[string]projections.MemberQuery{
		"first": {}, "middle": {After: middle}, "offset": {Offset: 900},
		"role":   {Role: events.Maintainer},
		"joined": {ByJoined: true}, "newest": {ByJoined: true, Descending: true},
		"search": {Q: "person 7"}, "word": {Q: "7"}, "address": {Q: "p7"}, "everybody": {Q: "p"}, "nobody": {Q: "nobody of that name"},
		"search role": {Q: "person", Role: events.Maintainer},
	}
}

// membersPage compares the time of pages and searches of 100,000 members with that of 1,000.
// The ratio is that of the slowest.
func membersPage(ctx context.Context, s *suite) (r result, err error) {
	type side struct {
		members   projections.Members
		workspace events.ID
		pages     map[string]projections.MemberQuery
	}
	var sides [2]side
	for i, n := range []int{1000, scaled(100_000)} {
		db, workspace, err := s.newLargeWorkspace(ctx, n)
		if db != nil {
			defer db.Close()
		}
		if err != nil {
			return r, err
		}
		one, err := singleConnection(ctx, db)
		if err != nil {
			return r, err
		}
		defer one.Close()
		members := projections.Members{DB: one}
		_, _, middle, err := members.Page(ctx, projections.MemberQuery{Workspace: workspace, Offset: n / 2, Limit: 1})
		if err != nil {
			return r, err
		}
		sides[i] = side{members, workspace, memberQueries(middle)}
	}
	newTurn := func(side side, name string) turnFunc {
		q := side.pages[name]
		q.Workspace, q.Limit = side.workspace, 25
		return func() (work, error) {
			return measure(ctx, 1, func(ctx context.Context, _ int) error { _, _, _, err := side.members.Page(ctx, q); return err })
		}
	}
	r.Note = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(sides[0].pages)) {
		page, err := compare(ctx, newTurn(sides[0], name), newTurn(sides[1], name))
		if err != nil {
			return r, err
		}
		r.Note[name] = fmt.Sprintf("%.1f (%d µs)", median(page.Ratios), 1_000_000/max(1, page.Note["theirs"].(int)))
		if r.Ratios == nil || median(page.Ratios) > median(r.Ratios) {
			r.Ratios = page.Ratios
		}
	}
	return r, nil
}
