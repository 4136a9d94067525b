package seed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/dev/seed"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/rebuild"
	"svc/sessions"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

// A demonstration is shared by these tests. It is created once.
type demonstration struct {
	url, file string
	db        *pgxpool.Pool
	now       time.Time
	demo      seed.Demo
}

func TestDemonstrationIsComplete(t *testing.T) {
	url := pgtest.URL(t)
	d := &demonstration{url: url, file: filepath.Join(t.TempDir(), "demo.json"), db: open(t, url), now: time.Now()}
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, d.now))
	d.demo = readDemo(t, d.file)
	catchUp(t, d.db)

	for _, test := range []struct {
		name string
		run  func(*demonstration, *testing.T)
	}{
		{"people have their places", (*demonstration).places},
		{"people can sign in", (*demonstration).signIn},
		{"service accounts have their tokens", (*demonstration).accounts},
		{"runs are in every stage", (*demonstration).active},
		{"runs have finished on each of ninety days", (*demonstration).finished},
		{"guardrails are about what was changed", (*demonstration).guardrails},
		{"times lie in the past and never run backwards", (*demonstration).times},
		{"all of it follows from the log", (*demonstration).rebuildChangesNothing},
		// From here on the order matters.
		{"another key changes nothing", (*demonstration).otherKey},
		{"the farm gets jobs once", (*demonstration).jobs},
		{"all of it was appended with the vault's key", (*demonstration).authentic},
		{"it is known when its commands are forgotten", (*demonstration).remembered},
		{"made again, it stays as it is", (*demonstration).again},
		{"made again without a file, it stays as it is", (*demonstration).withoutFile},
		{"made again where the file is gone, it gets other tokens", (*demonstration).recovered},
		{"made again beside the file of another database, it gets other tokens", (*demonstration).replaced},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(d, t) })
	}
}

func (d *demonstration) places(t *testing.T) {
	type place struct {
		Workspace, Email string
		Role             events.Role
		ApproveLoops     *bool
	}
	unticked := false
	want := []place{
		{"acme", "ada@acme.example", events.Owner, nil},
		{"acme", "ben@acme.example", events.Owner, nil},
		{"acme", "leo@acme.example", events.Legacy, nil},
		{"acme", "max@acme.example", events.Maintainer, &unticked},
		{"acme", "mia@acme.example", events.Maintainer, nil},
		{"acme", "vera@acme.example", events.Viewer, nil},
		{"globex", "greta@globex.example", events.Owner, nil},
		{"globex", "mia@acme.example", events.Viewer, nil},
	}
	require.Equal(t, want, list[place](t, d.db, `
		select w.slug, m.email, m.role, m.approve_loops from members m join workspaces w using (workspace_id)
		where w.slug in ('acme', 'globex') order by 1, 2`))

	var told []place
	for _, p := range d.demo.People {
		require.Equal(t, seed.Password, p.Password)
		require.Equal(t, p.WorkspaceID, scalar[events.ID](t, d.db, `select workspace_id from workspaces where slug = $1`, p.WorkspaceSlug))
		require.Equal(t, p.Name, scalar[string](t, d.db, `select name from users where email = $1`, p.Email))
		told = append(told, place{Workspace: p.WorkspaceSlug, Email: p.Email, Role: p.Role})
	}
	for i := range want {
		want[i].ApproveLoops = nil // the file does not contain it
	}
	require.ElementsMatch(t, want, told)
	for _, p := range seed.People() { // as the code host tells
		_, domain, _ := strings.Cut(p.Email, "@")
		require.Contains(t, want, place{Workspace: strings.TrimSuffix(domain, ".example"), Email: p.Email, Role: p.Role})
	}
	require.Equal(t, 7, scalar[int](t, d.db, `
		select count(*) from users u join members m on m.workspace_id = u.workspace_id and m.role = 'Owner'`),
		"each has a workspace of their own")
}

func (d *demonstration) signIn(t *testing.T) {
	require.Equal(t, 7, scalar[int](t, d.db, `select count(*) from passwords`))
	_, _, ok, err := sessions.Passwords{DB: d.db}.Check(testContext(t), "vera@acme.example", seed.Password)
	require.NoError(t, err)
	require.True(t, ok)
}

func (d *demonstration) accounts(t *testing.T) {
	type account struct {
		Workspace, Name string
		Scopes          []events.Scope
		Status          string
	}
	require.Equal(t, []account{
		{"acme", "ci-bot", []events.Scope{events.ReadAPI, events.SubmitJobs}, "active"},
		{"acme", "farmer", []events.Scope{events.SubmitJobs}, "active"},
		{"acme", "old-bot", []events.Scope{events.ReadAPI}, "revoked"},
		{"acme", "reader", []events.Scope{events.ReadAPI}, "active"},
	}, list[account](t, d.db, `
		select w.slug, a.name, a.scopes, a.status from service_accounts a join workspaces w using (workspace_id) order by 1, 2`))
	require.Equal(t, map[string]string{"ci-bot": "current", "reader": "current", "farmer": "current"}, d.tokens(t, d.demo))
}

// tokens checks what the tokens of a file permit, by account.
func (d *demonstration) tokens(t *testing.T, demo seed.Demo) map[string]string {
	status := map[string]string{}
	for _, a := range demo.ServiceAccounts {
		token, ok := bearer.ParseServiceToken(a.Token)
		require.True(t, ok)
		found, err := projections.ServiceAccounts{DB: d.db}.Tokens(testContext(t), []events.Fingerprint{token.Fingerprint()})
		require.NoError(t, err)
		known, ok := found[token.Fingerprint()]
		require.True(t, ok)
		require.Equal(t, a.Name, known.Name)
		require.Equal(t, a.Scopes, known.Scopes)
		require.Equal(t, a.WorkspaceID, known.Workspace)
		require.Equal(t, a.WorkspaceSlug, known.Slug)
		status[a.Name] = known.Status
	}
	return status
}

func (d *demonstration) active(t *testing.T) {
	const of = ` from runs r join workspaces w using (workspace_id) where w.slug = 'acme' and r.active`
	stages := list[int](t, d.db, `select distinct r.stage::int`+of+` order by 1`)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, stages)
	statuses := list[string](t, d.db, `select distinct r.status`+of+` order by 1`)
	require.Equal(t, []string{
		"analyzing", "awaiting_approval", "building", "coding", "merging", "needs_input", "planning", "queued", "reviewing",
	}, statuses)
}

func (d *demonstration) finished(t *testing.T) {
	const of = ` from runs r join workspaces w using (workspace_id) where not r.active`
	statuses := list[string](t, d.db, `select distinct r.status`+of+` and w.slug = 'acme' order by 1`)
	require.Equal(t, []string{"cancelled", "failed", "merged", "rejected"}, statuses)
	require.Zero(t, scalar[int](t, d.db, `select count(*)`+of+` and r.status = 'merged' and r.pr_number is null`))
	require.Positive(t, scalar[int](t, d.db, `select count(*)`+of+` and w.slug = 'globex'`))

	for days := 3; days <= 90; days++ {
		from := d.now.Add(-time.Duration(days) * 24 * time.Hour)
		n := scalar[int](t, d.db, `select count(*)`+of+` and w.slug = 'acme' and r.finished_at between $1 and $2`, from, from.Add(36*time.Hour))
		require.Positive(t, n, "%d days ago", days)
	}
}

// guardrails checks pushes: findings of guardrails are files of the push, and a path that was allowed
// once is still changed.
func (d *demonstration) guardrails(t *testing.T) {
	const of = ` from events g join events p on p.workspace_id = g.workspace_id and p.seq = g.seq - 1
		where g.kind = 'run.guardrails_checked' and p.kind = 'run.commits_pushed'`
	const lacks = ` and not jsonb_path_exists(p.data::jsonb, '$.files[*] ? (@.path starts with ".github/")')`
	const finds = ` and jsonb_path_exists(g.data::jsonb, '$.checks[*].findings[*] ? (@.path starts with ".github/")')`
	require.Positive(t, scalar[int](t, d.db, `select count(*)`+of+finds))
	require.Zero(t, scalar[int](t, d.db, `select count(*)`+of+finds+lacks))
	const allowed = ` from events g join events p on p.workspace_id = g.workspace_id and p.stream = g.stream
		where g.kind = 'run.guardrails_checked' and g.data->>'status' = 'allowed_once'
			and p.kind = 'run.commits_pushed' and p.data->>'head' = g.data->>'head'`
	require.Positive(t, scalar[int](t, d.db, `select count(*)`+allowed))
	require.Zero(t, scalar[int](t, d.db, `select count(*)`+allowed+lacks))
}

func (d *demonstration) times(t *testing.T) {
	require.Zero(t, scalar[int](t, d.db, `
		select count(*) from events e join events f on f.workspace_id = e.workspace_id and f.seq = e.seq + 1 where f.at < e.at`))
	newest, oldest := scalar[time.Time](t, d.db, `select max(at) from events`), scalar[time.Time](t, d.db, `select min(at) from events`)
	require.False(t, newest.After(d.now), "%s lies in the future", newest)
	require.WithinDuration(t, d.now, newest, 24*time.Hour)
	require.WithinRange(t, oldest, d.now.Add(-92*24*time.Hour), d.now.Add(-90*24*time.Hour))
	require.Zero(t, scalar[int](t, d.db, `select count(*) from runs where finished_at <= created_at`))
	require.Zero(t, scalar[int](t, d.db, `select count(*) from member_activity where last_active_at >= $1`, d.now))
	moving := scalar[int](t, d.db, `
		select count(distinct stage) from runs where active and waits_for = '' and updated_at > $1`, d.now.Add(-15*time.Minute))
	require.GreaterOrEqual(t, moving, 6, "stages with a run that is not stuck")
	latest := scalar[int](t, d.db, `select count(*) from runs where updated_at >= $1`, d.now)
	require.Zero(t, latest, "what is newest is told apart by its time")
}

// jobs submits the jobs of the farm, twice.
func (d *demonstration) jobs(t *testing.T) {
	for range 2 {
		require.NoError(t, seed.SubmitJobs(testContext(t), d.url, ringOf(t, "k"), d.now.Add(time.Hour/2)))
		require.Equal(t, 3, scalar[int](t, d.db, `select count(*) from events where kind = 'job.submitted'`))
	}
}

// authentic checks that each event has a MAC that the services accept. Once their log has one, they
// sign no event without.
func (d *demonstration) authentic(t *testing.T) {
	type event struct {
		Workspace, ID, Stream events.ID
		Version, Schema       int64
		Kind                  string
		Meta, Data, MAC       []byte
	}
	for _, e := range list[event](t, d.db, `select workspace_id, id, stream, version, schema, kind, meta, data, mac from events`) {
		require.NoError(t, store.CheckEventMAC(ringOf(t, "k"), e.Workspace, e.ID, e.Stream, e.Version, e.Schema, e.Kind, e.Meta, e.Data, e.MAC))
	}
}

// remembered forgets the commands' idempotency keys, as the service does after thirty days.
func (d *demonstration) remembered(t *testing.T) {
	_, err := d.db.Exec(testContext(t), `delete from commands`)
	require.NoError(t, err)
	before, later := scalar[int](t, d.db, `select count(*) from events`), d.now.Add(45*time.Minute)
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, later))
	require.NoError(t, seed.SubmitJobs(testContext(t), d.url, ringOf(t, "k"), later))
	require.Equal(t, before, scalar[int](t, d.db, `select count(*) from events`))
}

func (d *demonstration) otherKey(t *testing.T) {
	before := dumpAll(t, d.db)
	require.ErrorIs(t, seed.SubmitJobs(testContext(t), d.url, ringOf(t, "n"), d.now.Add(time.Hour)), vault.ErrKeyChanged)
	require.Equal(t, before, dumpAll(t, d.db))
}

// rebuildChangesNothing rebuilds the views, which must not change.
func (d *demonstration) rebuildChangesNothing(t *testing.T) {
	before := dumpAll(t, d.db)
	require.Empty(t, before["sessions"])
	require.Len(t, before["member_activity"], 5)
	require.Len(t, before["service_account_usage"], 1)
	touched := world.Touched(t, d.db)
	require.Subset(t, list[string](t, d.db, `select distinct split_part(kind, '.', 1) from events`),
		[]string{"decision", "invitation", "member", "run", "service_account", "user", "workspace"})
	for _, v := range projections.All() {
		require.Equal(t, touched[v.Name()], len(before[v.Name()]) > 0, "%s: has rows if and only if events say so", v.Name())
	}
	require.NoError(t, rebuild.Views(testContext(t), d.db, projections.All(), rebuild.Options{}))
	require.Equal(t, content(t, d.db, views()...), only(before, views()...))
}

func only(all map[string][]string, tables ...string) map[string][]string {
	some := map[string][]string{}
	for _, table := range tables {
		some[table] = all[table]
	}
	return some
}

func (d *demonstration) again(t *testing.T) {
	before, file := dumpAll(t, d.db), d.text(t)
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, d.now.Add(time.Hour)))
	require.Equal(t, before, dumpAll(t, d.db))
	require.Equal(t, file, d.text(t))
}

func (d *demonstration) text(t *testing.T) string {
	text, err := os.ReadFile(d.file)
	require.NoError(t, err)
	return string(text)
}

func (d *demonstration) withoutFile(t *testing.T) {
	before := dumpAll(t, d.db)
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), "", d.now.Add(time.Hour)))
	require.Equal(t, before, dumpAll(t, d.db))
}

func (d *demonstration) recovered(t *testing.T) {
	require.NoError(t, os.Remove(d.file))
	events := scalar[int](t, d.db, `select count(*) from events`)
	later := d.now.Add(time.Hour)
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, later))
	now := readDemo(t, d.file)

	require.Equal(t, map[string]string{"ci-bot": "rotated", "reader": "rotated", "farmer": "rotated"}, d.tokens(t, d.demo))
	require.Equal(t, map[string]string{"ci-bot": "current", "reader": "current", "farmer": "current"}, d.tokens(t, now))
	require.ElementsMatch(t, d.demo.People, now.People)

	type record struct{ Kind, Actor string }
	require.Equal(t, []record{
		{"service_account.rotated", "ada@acme.example"}, {"service_account.rotated", "ada@acme.example"},
		{"service_account.rotated", "ada@acme.example"},
	}, list[record](t, d.db, `select kind, meta->'actor'->>'name' from events where at = $1`, later.Truncate(time.Microsecond)))
	require.Equal(t, events+3, scalar[int](t, d.db, `select count(*) from events`), "nothing else happened")
}

func (d *demonstration) replaced(t *testing.T) {
	before, other := readDemo(t, d.file), d.text(t)
	for _, p := range before.People {
		other = strings.ReplaceAll(other, p.WorkspaceID.String(), events.NewID(d.now).String())
	}
	require.NoError(t, os.WriteFile(d.file, []byte(other), 0o600))
	require.NoError(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, d.now.Add(2*time.Hour)))
	now := readDemo(t, d.file)
	require.ElementsMatch(t, d.demo.People, now.People)
	require.Equal(t, map[string]string{"ci-bot": "rotated", "reader": "rotated", "farmer": "rotated"}, d.tokens(t, before))
	require.Equal(t, map[string]string{"ci-bot": "current", "reader": "current", "farmer": "current"}, d.tokens(t, now))

	require.NoError(t, os.WriteFile(d.file, []byte("{"), 0o600))
	require.ErrorContains(t, seed.Development(testContext(t), d.url, ringOf(t, "k"), d.file, d.now.Add(2*time.Hour)), d.file)
	require.Equal(t, "{", d.text(t))
}

// requireRefused checks that Development refuses a database and leaves it unchanged.
func requireRefused(t *testing.T, url string, db *pgxpool.Pool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demo.json")
	before := dumpAll(t, db)
	err := seed.Development(testContext(t), url, ringOf(t, "k"), file, time.Now())
	require.ErrorContains(t, err, "seed an empty database")
	require.Equal(t, before, dumpAll(t, db))
	require.NoFileExists(t, file)
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := open(t, url)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	user := events.NewID(time.Now())
	_, err := commands.New(log, time.Now).RegisterUser(testContext(t), commands.RegisterUser{
		Meta: commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user, Name: "zoe@initech.example"},
			Origin: events.FromAuth}, Workspace: events.NewID(time.Now())},
		User: user, Member: events.NewID(time.Now()), Name: "Zoë Brandt", Emails: []string{"zoe@initech.example"},
		WorkspaceName: "Initech", WorkspaceSlug: "initech",
	})
	require.NoError(t, err)
	requireRefused(t, url, db)
}

func TestIncompleteDemonstrationIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := open(t, url)
	_, err := db.Exec(testContext(t), `
		create function cut_off() returns trigger language plpgsql as $$ begin
			if new.kind = 'user.registered' and (select count(*) from users) >= 2 then
				raise 'the power is gone';
			end if;
			return new;
		end $$;
		create trigger cut_off before insert on events for each row execute function cut_off()`)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "demo.json")
	require.ErrorContains(t, seed.Development(testContext(t), url, ringOf(t, "k"), file, time.Now()), "the power is gone")
	require.NoFileExists(t, file)

	_, err = db.Exec(testContext(t), `drop trigger cut_off on events`)
	require.NoError(t, err)
	require.Equal(t, 2, scalar[int](t, db, `select count(*) from users`))
	requireRefused(t, url, db)
}

func TestErrorsDoNotContainTheAddress(t *testing.T) {
	t.Parallel()
	err := seed.Development(testContext(t), "postgres://svc:secret@[/svc", ringOf(t, "k"), "", time.Now())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
