package rebuild_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/projections/rebuild"
	"svc/projections/runviews"
	"svc/test/world"
)

// Every view is rebuilt while others write and read.
func TestRebuildWhileOthersWriteAndRead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	first, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, first.Play(t.Context(), 100))
	second, err := w.NewPlayer(t.Context(), 2)
	require.NoError(t, err)
	w.CaughtUp(t) // from here on no view is ever empty
	players := []*world.Player{first, second, first.AnotherPlayer(3)}

	over, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, p := range players {
		others.Go(func() {
			for over.Err() == nil {
				if !assert.NoError(t, p.Play(t.Context(), 5)) {
					return
				}
			}
		})
	}
	readers := world.Connect(t, w.URL)
	for what, read := range reads(readers, first) {
		others.Go(func() {
			for over.Err() == nil {
				if !assert.NoError(t, read(t.Context()), what) {
					return
				}
			}
		})
	}
	operator := world.Connect(t, w.URL)
	for _, v := range projections.All() {
		world.Rebuild(t, operator, v)
	}
	end()
	others.Wait()

	w.CaughtUp(t)
	live := world.Dumps(t, w.DB)
	requireNothingLeft(t, w.DB)
	for _, v := range projections.All() {
		world.Rebuild(t, w.DB, v)
		require.Equal(t, live[v.Name()], world.Dump(t, w.DB, v.Name()), v.Name())
	}
}

// reads returns queries of each view that fail if the view is empty.
func reads(db *pgxpool.Pool, p *world.Player) map[string]func(context.Context) error {
	some := func(n int, err error) error {
		if err == nil && n == 0 {
			return errors.New("the view is empty")
		}
		return err
	}
	return map[string]func(context.Context) error{
		"people": func(ctx context.Context) error {
			// Players invite people who never sign up and whom no list shows; these could fill a
			// page sorted by name.
			q := projections.MemberQuery{Workspace: p.Workspace, ByJoined: true, Limit: 10}
			list, _, _, err := projections.Members{DB: db}.Page(ctx, q)
			return some(len(list), err)
		},
		"invitations": func(ctx context.Context) error {
			_, total, err := projections.Invitations{DB: db}.Page(ctx, p.Workspace, 10, 0)
			return some(total, err)
		},
		"accounts at providers": func(ctx context.Context) error {
			list, err := projections.Accounts{DB: db}.ForUser(ctx, p.Owner.ID)
			return some(len(list), err)
		},
		"places": func(ctx context.Context) error {
			list, err := projections.Members{DB: db}.Memberships(ctx, []projections.Ref{{Workspace: p.Workspace, ID: p.Owner.ID}})
			return some(len(list), err)
		},
		"accounts": func(ctx context.Context) error {
			list, _, err := projections.ServiceAccounts{DB: db}.Page(ctx, p.Workspace, 10, 0)
			return some(len(list), err)
		},
		"tokens": func(ctx context.Context) error {
			var n int
			err := db.QueryRow(ctx, `select count(*) from service_tokens`).Scan(&n)
			return some(n, err)
		},
		"runs": func(ctx context.Context) error {
			_, active, err := runviews.Runs{DB: db}.Page(ctx, runviews.RunQuery{Workspace: p.Workspace, Active: true, Limit: 10})
			if err != nil {
				return err
			}
			_, over, err := runviews.Runs{DB: db}.Page(ctx, runviews.RunQuery{Workspace: p.Workspace, Limit: 10})
			return some(active+over, err)
		},
		"audit": func(ctx context.Context) error {
			page, err := auditlog.Audit{DB: db}.Page(ctx, auditlog.AuditQuery{Workspace: p.Workspace, Limit: 10})
			return some(len(page.Records), err)
		},
	}
}

// requireNothingLeft requires that no table or index of a rebuild exists.
func requireNothingLeft(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	rows, _ := db.Query(t.Context(), `select relname from pg_class where relname like '%\_\_next%'`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, list)
}

// describeTable describes the columns, indexes and constraints of a table.
func describeTable(t *testing.T, db *pgxpool.Pool, table string) (list []string) {
	t.Helper()
	for _, sql := range []string{
		`select attnum || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || case when attnotnull then ' not null' else '' end
			from pg_attribute where attrelid = $1::regclass and attnum > 0 order by attnum`,
		`select indexname || ': ' || indexdef from pg_indexes where tablename::text = $1 order by 1`,
		`select conname || ': ' || pg_get_constraintdef(oid) from pg_constraint where conrelid = $1::regclass order by 1`,
	} {
		rows, _ := db.Query(t.Context(), sql, table)
		part, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		list = append(list, part...)
	}
	return list
}

func TestRebuiltTableHasTheMigratedSchema(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	_, err := w.NewPlayer(t.Context(), 1)
	require.NoError(t, err)
	for _, v := range projections.All() {
		want := describeTable(t, w.DB, v.Name())
		require.Contains(t, strings.Join(want, "\n"), v.Name()+"_pkey: PRIMARY KEY")
		for range 2 {
			world.Rebuild(t, w.DB, v)
			require.Equal(t, want, describeTable(t, w.DB, v.Name()))
		}
	}
	requireNothingLeft(t, w.DB)
}

// After a rebuild the planner has statistics of the table.
func TestRebuiltTableHasPlannerStatistics(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 8)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 100))
	for _, v := range projections.All() {
		world.Rebuild(t, w.DB, v)
		var rows, known, columns int64
		require.NoError(t, w.DB.QueryRow(t.Context(), `
			select (select count(*) from `+v.Name()+`), (select reltuples::bigint from pg_class where oid = $1::regclass),
				(select count(*) from pg_stats where tablename = $1::text)`, v.Name()).Scan(&rows, &known, &columns))
		require.Equal(t, rows, known, v.Name()) // -1 if nobody has counted them
		if rows > 0 {
			require.Positive(t, columns, v.Name())
		}
	}
}

// Grants on a view, such as those of an operator's reports, survive a rebuild.
func TestRebuildKeepsGrants(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	report := "report_" + strings.ReplaceAll(events.NewID(time.Now()).String(), "-", "")
	execute := func(sql string) {
		t.Helper()
		_, err := w.DB.Exec(t.Context(), strings.ReplaceAll(sql, "report", report))
		require.NoError(t, err, sql)
	}
	execute(`create role report`)
	t.Cleanup(func() {
		_, err := w.DB.Exec(context.Background(), strings.ReplaceAll(`drop owned by report; drop role report`, "report", report))
		require.NoError(t, err)
	})
	execute(`grant select on members to report with grant option`)
	execute(`grant select on members to public`)
	execute(`grant update (role) on members to report`)
	execute(`alter table runs owner to report`)

	rights := func(table string) (list []string) {
		rows, _ := w.DB.Query(t.Context(), `
			select format('%s of %s', a, pg_get_userbyid(relowner)) from pg_class left join unnest(relacl) a on true where oid = $1::regclass
			union all select format('%s: %s', attname, a) from pg_attribute, unnest(attacl) a where attrelid = $1::regclass order by 1`, table)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return list
	}
	for _, table := range []string{"members", "runs", "users"} {
		want := rights(table)
		world.Rebuild(t, w.DB, world.View(t, table))
		require.Equal(t, want, rights(table), table)
	}
	require.Len(t, rights("members"), 4)
	require.Contains(t, rights("runs")[0], "of "+report)
}

func TestEmptyViewIsRebuilt(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for _, v := range projections.All() {
		world.Rebuild(t, w.DB, v)
		require.Empty(t, world.Dump(t, w.DB, v.Name()))
	}
}

// A rebuild removes an added row, restores a deleted one and corrects a changed one.
func TestRebuildRepairsRows(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 3)
	require.NoError(t, err)
	require.NoError(t, p.Play(t.Context(), 200))
	w.CaughtUp(t)
	id := world.NewID()
	for name, damage := range map[string][]string{
		"users": {`insert into users select '` + id.String() +
			`', workspace_id, name, email, emails, avatar_url, registered_at from users limit 1`, `update users set name = 'x'`},
		"workspaces": {`insert into workspaces values ('` + id.String() + `', 'x', 'x', now())`, `update workspaces set slug = 'x'`},
		"members": {`insert into members select workspace_id, '` + id.String() +
			`', user_id, email, 'Owner', null, now(), name, name_key from members limit 1`, `update members set role = 'Owner'`},
		"member_counts": {`insert into member_counts select workspace_id, 'King', 7 from member_counts limit 1`,
			`update member_counts set members = members + 1`},
		"member_words": {`insert into member_words select workspace_id, 'x', member_id, name_key, 'x' from member_words limit 1`,
			`update member_words set word = 'x'`},
		"accounts": {`insert into accounts select 'x/1', workspace_id, user_id, provider, account_id, login, linked_at from accounts
			limit 1`, `update accounts set login = 'x'`},
		"invitations": {`insert into invitations select workspace_id, '` + id.String() +
			`', email, role, status, inviter_id, inviter_name, sent_at, expires_at from invitations limit 1`,
			`update invitations set status = 'pending', expires_at = now()`},
		"service_accounts": {`insert into service_accounts select workspace_id, '` + id.String() +
			`', 'x', scopes, tail, status, created_by, now() from service_accounts limit 1`, `update service_accounts set status = 'active'`},
		"service_tokens": {`insert into service_tokens select '\x00', workspace_id, account_id, name, scopes, tail, 'current' from service_tokens
			limit 1`, `update service_tokens set status = 'current'`},
		"runs": {`update runs set run_id = '` + id.String() + `' where ctid = (select min(ctid) from runs)`,
			`update runs set cost_cents = cost_cents + 1`},
		"audit": {`update audit set entry = '\x00' where ctid = (select min(ctid) from audit)`, `update audit set data = '\x00'`},
	} {
		want := world.Dump(t, w.DB, name)
		for _, sql := range append(damage, `delete from `+name+` where ctid = (select max(ctid) from `+name+`)`) {
			before := world.Dump(t, w.DB, name)
			_, err := w.DB.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
			require.NotEqual(t, before, world.Dump(t, w.DB, name), sql)
		}
		world.Rebuild(t, w.DB, world.View(t, name))
		require.Equal(t, want, world.Dump(t, w.DB, name))
	}
}

// Followers go on at the checkpoints that a rebuild has written.
func TestFollowersGoOnAfterARebuild(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	p, err := w.NewPlayer(t.Context(), 4)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, p.Play(t.Context(), 60))
		world.Rebuild(t, w.DB, world.View(t, "runs")) // its checkpoints cover all logs then
		world.Rebuild(t, w.DB, world.View(t, "audit"))
		var behind int
		require.NoError(t, w.DB.QueryRow(t.Context(), `
			select count(*) from logs l cross join (values ('runs'), ('audit')) as v (view)
			left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view
			where c.seq is distinct from l.head`).Scan(&behind))
		require.Zero(t, behind)
	}
	w.Follower = world.Follow(t, w.DB)
	require.NoError(t, p.Play(t.Context(), 60))
	w.CaughtUp(t)
	world.RequireRebuilt(t, w.DB)
}

// A job that takes another slot of its key among the last events, which are folded onto the rows of those before,
// leaves the slot that it had.
func TestRebuildReplacesKeyOfOwner(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, job := world.NewID(), world.NewID()
	w.Record(t, world.System, workspace, job,
		events.JobSubmitted{Spec: events.JobSpec{Name: "deploy"}}, events.JobLeased{Epoch: 1, Key: "deploy", Slot: 2},
		events.JobRequeued{Epoch: 1, Reason: "infra"}, events.JobLeased{Epoch: 2, Key: "deploy", Slot: 1})
	keys := world.View(t, "unique_keys")
	_, err := world.RebuildView(t.Context(), w.DB, keys, world.IgnoreProgress)
	require.NoError(t, err)
	want := world.Dump(t, w.DB, "unique_keys")
	require.Len(t, want, 1)
	_, err = rebuild.RebuildLogIn(t.Context(), w.DB, keys, workspace, 2)
	require.NoError(t, err)
	require.Equal(t, want, world.Dump(t, w.DB, "unique_keys"))
	_, err = rebuild.RebuildIn(t.Context(), w.DB, keys, 1, 2, world.IgnoreProgress)
	require.NoError(t, err)
	require.Equal(t, want, world.Dump(t, w.DB, "unique_keys"))
}
