package plans_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/config"
	"svc/events"
	"svc/events/bus"
	"svc/events/store"
	"svc/loop"
	"svc/projections"
	"svc/projections/rebuild"
	"svc/proof"
	"svc/vault"
)

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newID() events.ID { return events.NewID(epoch) }

// A person has a workspace of their own, and is a member in Acme.
type person struct {
	user, home, member events.ID
	email              string
}

func newPerson(name string) person { return person{newID(), newID(), newID(), name + "@acme.example"} }

func (p person) in(workspace events.ID) commands.Meta {
	return commands.Meta{
		Workspace: workspace,
		Envelope:  events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: p.user, Name: p.email}, Origin: events.FromAPI},
	}
}

func (p person) register() commands.RegisterUser {
	return commands.RegisterUser{
		Meta: p.in(p.home), User: p.user, Member: newID(), Name: strings.ToUpper(p.email[:1]) + " Person", Emails: []string{p.email},
		WorkspaceName: "Home", WorkspaceSlug: "w-" + p.home.String()[24:],
		Account: events.UserAccountLinked{User: p.user, Provider: "github", Account: p.user.String(), Login: "p"},
	}
}

// A site is a database of realistic shape: among others a workspace, acme, of
// 100,000 members, with 50 runs that move and 100,000 that have stopped, and the
// log of another, long, of a million events. That of told is in the audit log.
type site struct {
	url        string
	db         *pgxpool.Pool // that nobody watches
	acme       events.ID
	long, told events.ID
	owner      person
	repo       events.Repo
	rare       events.ID // a repository of 50 runs
	account    events.ID // with a token
	token      bearer.ServiceToken
	run        events.ID // that has stopped
	member     events.ID // one of many
	fellow     events.ID // who that is
}

const (
	members  = 100_000
	finished = 100_000
	active   = 50
	logged   = 1_000_000
	records  = 60_000 // in the log that is in the audit log
	others   = 1000   // workspaces of their own, whose owners are signed in; one person is in half of them
	waiting  = 10_000 // runs that wait
)

func build(t *testing.T, url string) *site {
	t.Helper()
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	s := &site{
		url: url, db: db, acme: newID(), long: newID(), told: newID(), owner: newPerson("ann"), account: newID(),
		token: bearer.NewServiceToken(),
		repo:  events.Repo{ID: newID(), Name: "acme/web"}, rare: newID(),
	}
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(newRing(t))
	h := commands.New(log, func() time.Time { return epoch })
	_, err = h.RegisterUser(t.Context(), s.owner.register())
	require.NoError(t, err)
	_, err = h.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: s.owner.in(s.acme), Member: s.owner.member, Email: s.owner.email, Name: "Acme", Slug: "acme",
	})
	require.NoError(t, err)
	_, err = h.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
		Meta: s.owner.in(s.acme), Account: s.account, Token: s.token, Name: "robot", Scopes: []events.Scope{events.ReadAPI},
	})
	require.NoError(t, err)
	_, err = proof.New(db, newRing(t), "acme.example", always, quiet).Verify(t.Context(), s.acme, "", nil) // creates the signing key
	require.NoError(t, err)
	s.fill(t)
	return s
}

// fill writes rows by the hundred thousand.
func (s *site) fill(t *testing.T) {
	t.Helper()
	for _, table := range []struct{ name, sql string }{
		{"events", `
			insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
			select $long, n, id('e', n), id('r', n % 100000), 1 + (n - 1) / 100000, 'run.cost_recorded', 1,
				'2026-01-01'::timestamptz + n * interval '1 second',
				'{"actor":{"type":"service","id":"01980000-0000-7000-8000-000000000001","name":"service:ci"},"origin":"api"}',
				'{"repoId":"01980000-0000-7000-8000-000000000002","cents":7,"source":"compute","quantity":1}'
			from generate_series(1, $logged) n;
			insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
			select $told, seq, id, stream, version, kind, schema, at, meta, data from events where workspace_id = $long and seq <= $records`},
		{"proof_tiles", `
			insert into proof_tiles (workspace_id, number, hashes) select $long, n, sha256(n::text::bytea) from generate_series(0, 4000) n`},
		{"users", `
			insert into users (user_id, workspace_id, name, email, emails, avatar_url, registered_at)
			select id('u', n), id('w', n), 'Person ' || n, 'p' || n || '@acme.example', array['p' || n || '@acme.example'], '',
				'2026-01-01'::timestamptz from generate_series(1, $members) n`},
		{"members", `
			insert into members (workspace_id, member_id, user_id, email, role, joined_at, name, name_key)
			select *, 'Person ' || substr(split_part(email, '@', 1), 2), 'person ' || substr(split_part(email, '@', 1), 2) from (
				select $acme, id('m', n), id('u', n), 'p' || n || '@acme.example' as email, case
					when n % 50 = 0 then 'Maintainer' else 'Viewer' end, '2026-01-01'::timestamptz + n * interval '1 second'
				from generate_series(1, $members) n
				union all select id('w', n), id('n', n), id('u', n), 'p' || n || '@acme.example', 'Owner', '2026-01-01'::timestamptz
					from generate_series(1, $others) n
				union all select id('w', n), id('k', n), id('u', 500), 'p500@acme.example', 'Viewer', '2026-01-01'::timestamptz
					from generate_series(501, $others) n) m`},
		{"member_words", `
			insert into member_words (workspace_id, word_id, member_id, name_key, word)
			select workspace_id, member_id || '/' || n, member_id, name_key, word
			from members, unnest(array[name_key, substr(name_key, 8), email, split_part(email, '@', 2)]) with ordinality as t (word, n)
				where name like 'Person %';
			insert into member_counts (workspace_id, role, members) select workspace_id, role, count(*) from members group by 1, 2
			on conflict (workspace_id, role) do update set members = excluded.members`},
		{"member_activity", `
			insert into member_activity (workspace_id, user_id, last_active_at) select $acme, id('u', n), '2026-01-01'
				from generate_series(1, $members) n`},
		{"runs", `
			insert into runs (workspace_id, run_id, repo_id, repo_name, issue_number, issue_title, stage, status, active, pr_number,
				cost_cents, created_at, updated_at, finished_at, waits_for, round, job_rounds, budget_cents, budget_compute_ms, budget_rounds,
					wait_code, wait_detail, open_jobs, branch, tidied, detail)
			select $acme, id('r', n), case when n % 100 = 0 then id('p', 1)
				when n % 2000 = 1001 then $rare else $repo end, 'acme/web', n, 'Fix date parsing ' || n, n % 7,
				case when n <= $active then 'coding' else 'merged' end, n <= $active, n, 112, '2026-01-01'::timestamptz + n * interval '1 minute',
				'2026-01-01'::timestamptz + n * interval '1 minute', case
					when n > $active then '2026-01-01'::timestamptz + n * interval '1 minute' end, '', 1, '{}', 0, 0, 0,
						'', '', 0, 'run/' || n || '-fix-date-parsing', n > $active,
				('{"branch":"run/' || n || '-fix-date-parsing","stages":[],"files":[],"jobs":[],"checks":[],"head":"' || repeat('9f2c41d0',
					60) || '"}')::json
			from generate_series(1, $active + $finished) n`},
		{"proof_hashes", `
			insert into proof_hashes (workspace_id, index, hash) select $long, n, sha256(n::text::bytea) from generate_series(0, 2 * $records) n`},
		{"runners", runnerRows},
		{"jobs", jobRows},
		{"job_logs", jobLogRows},
		{"job_inputs", jobInputRows},
		{"run_steps", runStepRows},
		{"others", `
			insert into proof_checkpoints (workspace_id, size, note, made_at) select $long, 1024 * n, '', '2026-01-01'
				from generate_series(1, 1000) n;
			insert into run_counts (workspace_id, repo_id, active, terminal)
				values ($acme, $repo, $active, $finished - 1050), ($acme, id('p', 1), 0, 1000), ($acme, $rare, 0, 50);
			insert into outcomes (workspace_id, run_id, repo_id, queued_at, status, ended_at, counted, implemented, touched, interventions,
				intervened_at,
				last_at, pushed_by, cost_cents, phase, phase_since, person_ms, farm_ms)
			select $acme, run_id, repo_id, created_at, case when active then '' else 'merged' end, finished_at, not active, true, false, n,
				array_fill(coalesce(finished_at, updated_at), array[n]), case
					when n > 0 then coalesce(finished_at, updated_at) end, id('u', 1), 112, 'working', created_at, 0, 0 from runs, lateral (select case
						when issue_number % 3 = 0 then 2 else 0 end as n) i where workspace_id = $acme;
			insert into decisions (workspace_id, decision_id, run_id, kind, question, head, status, raised_at, closed_at, action)
			select $acme, id('d', n), id('r', n), 'merge_approval', 'Merge?', '', case
				when n <= 20 then 'open' else 'answered' end, created_at, finished_at, ''
			from runs r, generate_series(1, $finished) n where r.run_id = id('r', n) and r.workspace_id = $acme;
			insert into invitations (workspace_id, invitation_id, email, role, status, inviter_id, inviter_name, sent_at, expires_at)
			select $acme, id('i', n), 'i' || n || '@acme.example', 'Viewer', case
				when n <= 200 then 'pending' else 'accepted' end, id('u', 1), 'p1', '2026-01-01', '2036-01-01'
			from generate_series(1, 20000) n;
			insert into accounts (account_key, workspace_id, user_id, provider, account_id, login, linked_at)
			select 'github/' || n, id('w', n), id('u', n), 'github', n, 'p' || n, '2026-01-01' from generate_series(1, 20000) n;
			insert into workspaces (workspace_id, name, slug, created_at) select id('w', n), 'Home', 'home-' || n, '2026-01-01'
				from generate_series(1, $others) n;
			insert into logs (workspace_id, head, last_at) select id('w', n), 10, '2026-01-01'::timestamptz from generate_series(1, $others) n
				union all select $long, $logged, '2026-02-01'::timestamptz union all select $told, $records, '2026-02-01'::timestamptz;
			insert into checkpoints (workspace_id, view, seq) select id('w', n), view, 10 from generate_series(1, $others) n,
				unnest($views::text[]) as view
				union all select $long, view, $logged from unnest($views::text[]) as view
				union all select $told, view, $records from unnest($views::text[]) as view;
			insert into sessions (token_hash, session_id, user_id, active_workspace_id, created_at, updated_at, expires_at, ip, user_agent, mac)
			select sha256(n::text::bytea), id('s', n), id('u', n), null, '2026-01-01', '2026-01-01', '2036-01-01', '', '', ''
				from generate_series(1, $others) n;
			insert into service_accounts (workspace_id, account_id, name, scopes, tail, status, created_by, created_at)
			select id('w', n), id('a', n), 'bot-' || n, '{api.read}', 'tail', 'active', 'p1', '2026-01-01' from generate_series(1, $others) n;
			insert into service_tokens (fingerprint, workspace_id, account_id, name, scopes, tail, status)
			select sha256(n::text::bytea), id('w', n), id('a', n), 'bot-' || n, '{api.read}', 'tail', 'current' from generate_series(1, $others) n;
			insert into service_account_usage (workspace_id, account_id, last_used_at) select id('w', n), id('a', n), '2026-01-01'
				from generate_series(1, $others) n;
			insert into global_keys (key, workspace_id, owner) select 'email/p' || n || '@acme.example', id('w', n), id('u', n)
				from generate_series(1, $members) n;
			insert into checkpoints (workspace_id, view, seq) select $acme, view, 1
			from unnest(array['runs', 'run_counts', 'decisions', 'outcomes']) view; -- which have rows
			insert into unique_keys (workspace_id, key, owner) select $acme, 'issue/' || n, id('r', n) from generate_series(1, 20000) n;
			insert into commands (workspace_id, actor, key, request_hash, answer, seq, at)
			select $acme, id('u', n), 'key', '', '{}', 1, '2026-11-20' from generate_series(1, 20000) n;
			insert into passwords (user_id, hash) select id('u', n), '' from generate_series(1, $others) n;
			insert into oauth_states (state_hash, provider, verifier, callback_url, error_callback_url, new_user_url, expires_at)
			select sha256(n::text::bytea), 'github', '', '', '', '', '2036-01-01' from generate_series(1, $others) n`},
	} {
		s.bulk(t, table.name, s.filled(table.sql))
	}
	for _, v := range projections.Followed() {
		if v.Name() == "audit" {
			_, err := rebuild.Log(t.Context(), s.db, v, s.told, rebuild.Options{})
			require.NoError(t, err)
		}
	}
	s.run, s.member, s.fellow = idOf(t, 'r', 500), idOf(t, 'm', 500), idOf(t, 'u', 500)
	s.exec(t, `vacuum analyze`)
}

// checkpointed returns the names of all that follows the logs.
func checkpointed() []string {
	names := []string{proof.FollowerName, bus.FollowerName, loop.MarkerName}
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	return names
}

// filled puts the site's figures in. id('m', n) is the n-th id of that kind: they
// are in the order of their numbers, as real ones are in the order of their times.
func (s *site) filled(sql string) string {
	list := []string{"$acme", quoted(s.acme), "$long", quoted(s.long), "$told", quoted(s.told), "$repo", quoted(s.repo.ID), "$rare",
		quoted(s.rare), "$views", "'{" + strings.Join(checkpointed(), ",") + "}'"}
	for name, n := range map[string]int{"members": members, "finished": finished, "active": active, "logged": logged, "records": records,
		"others": others, "waiting": waiting} {
		list = append(list, "$"+name, fmt.Sprint(n))
	}
	sql = strings.NewReplacer(list...).Replace(sql)
	return anID.ReplaceAllStringFunc(sql, func(id string) string {
		of := anID.FindStringSubmatch(id)
		return fmt.Sprintf(`('01980000-00%x-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid`, of[1], of[2])
	})
}

var anID = regexp.MustCompile(`\bid\('(.)', ([^()]+)\)`)

func idOf(t *testing.T, kind byte, n int) events.ID {
	t.Helper()
	id, err := events.ParseID(fmt.Sprintf("01980000-00%x-7000-8000-%012x", kind, n))
	require.NoError(t, err)
	return id
}

func quoted(id events.ID) string { return "'" + id.String() + "'::uuid" }

func (s *site) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := s.db.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

// bulk fills a table while it has no indexes, which takes a third of the time.
func (s *site) bulk(t *testing.T, table, fill string) {
	t.Helper()
	rows, _ := s.db.Query(t.Context(), `
		select 'alter table ' || $1 || ' drop constraint ' || conname,
			'alter table ' || $1 || ' add constraint ' || conname || ' ' || pg_get_constraintdef(oid)
		from pg_constraint where conrelid = to_regclass($1) and contype in ('p', 'u')
		union all
		select 'drop index ' || i.relname, pg_get_indexdef(i.oid) from pg_index x join pg_class i on i.oid = x.indexrelid
		where x.indrelid = to_regclass($1) and not exists (select from pg_constraint where conindid = i.oid)`, table)
	type index struct{ Drop, Create string }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	require.NoError(t, err)
	for _, i := range list {
		s.exec(t, i.Drop)
	}
	s.exec(t, fill)
	for _, i := range list {
		s.exec(t, i.Create)
	}
}

// done fails the test if what was asked did not work.
func done[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func newRing(t *testing.T) vault.Ring {
	t.Helper()
	ring, err := vault.NewRing([]config.Secret{"0123456789abcdef0123456789abcdef"})
	require.NoError(t, err)
	return ring
}

func always(string) bool { return true }
