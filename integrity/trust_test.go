package integrity_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/proof"
	"svc/sessions"
	"svc/test/pgtest"
	"svc/vault"
)

// A site is a database that an attacker without keys can write to: a workspace with two members, a
// token, 260 signed events and ten unsigned ones.
type site struct {
	db             *pgxpool.Pool
	id, owner, eve events.ID
	prover         *proof.Prover
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{db: pgtest.New(t), id: newID(), owner: newID(), eve: newID()}
	log := store.New(s.db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(newRing(t))
	h, member := commands.New(log, time.Now), newID()
	meta := commands.Meta{Workspace: s.id, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: s.owner, Name: "ann@x"}}}
	_, err := h.RegisterUser(t.Context(), commands.RegisterUser{
		Meta: meta, User: s.owner, Member: newID(), Name: "Ann", Emails: []string{"ann@x"}, WorkspaceName: "Acme", WorkspaceSlug: "acme",
		Account: events.UserAccountLinked{User: s.owner, Provider: "github", Account: "1", Login: "ann"},
	})
	require.NoError(t, err)
	eveMeta := commands.Meta{Workspace: newID(), Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: s.eve, Name: "eve@x"}}}
	_, err = h.RegisterUser(t.Context(), commands.RegisterUser{
		Meta: eveMeta, User: s.eve, Member: newID(), Name: "Eve", Emails: []string{"eve@x"}, WorkspaceName: "Eve", WorkspaceSlug: "eve",
	})
	require.NoError(t, err)
	_, err = h.AddMember(t.Context(), commands.AddMember{Meta: meta, Member: member, User: s.eve, Email: "eve@x", Role: events.Viewer})
	require.NoError(t, err)
	_, err = h.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
		Meta: meta, Account: newID(), Token: bearer.NewServiceToken(), Name: "bot", Scopes: []events.Scope{events.ReadAPI},
	})
	require.NoError(t, err)
	toggle := func(n int) {
		for i := range n {
			role := []events.Role{events.Maintainer, events.Viewer}[i%2]
			_, err := h.UpdateMember(t.Context(), commands.UpdateMember{Meta: meta, Member: member, Role: &role})
			require.NoError(t, err)
		}
	}
	s.prover = newProver(t, s.db)
	toggle(254)
	s.sign(t)
	s.catchUp(t)
	toggle(10)
	return s
}

// clone copies the database of a site whose pool is closed.
func (s *site) clone(t *testing.T) *site {
	t.Helper()
	c := *s
	c.db = pgtest.Clone(t, s.db)
	c.prover = newProver(t, c.db)
	return &c
}

func newRing(t *testing.T) vault.Ring {
	t.Helper()
	ring, err := vault.NewRing([]config.Secret{config.Secret(strings.Repeat("k", 32))})
	require.NoError(t, err)
	return ring
}

func newProver(t *testing.T, db *pgxpool.Pool) *proof.Prover {
	t.Helper()
	return proof.New(db, newRing(t), "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler))
}

// catchUp runs the followed views until they have caught up.
func (s *site) catchUp(t *testing.T) {
	t.Helper()
	require.NoError(t, rebuild.Views(t.Context(), s.db, projections.Followed(), rebuild.Options{}))
}

// forgedEvent appends an event that makes Eve an owner, in the form of a commit.
const forgedEvent = `
	with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
	insert into events select e.workspace_id, h.head, gen_random_uuid(), e.stream, e.version + 1, e.kind, e.schema, e.at, e.meta,
		replace(e.data::text, '"to":"Viewer"', '"to":"Owner"')::json
	from events e, h where e.workspace_id = $1 and e.kind = 'member.role_changed' order by e.seq desc limit 1`

const (
	signedEvent = `update events set data = replace(data::text, '"Maintainer"', '"Owner"')::json where workspace_id = $1
		and kind = 'member.role_changed' and seq = 100`
	unsignedEvent = `update events set data = replace(data::text, '"to":"Viewer"', '"to":"Owner"')::json where workspace_id = $1
		and seq = (select head from logs where workspace_id = $1)`
	ownerRow = `update members set role = 'Owner' where workspace_id = $1 and email = 'eve@x'`

	// countsAsAppended makes the member counts match the forged event.
	countsAsAppended = `
		insert into member_counts values ($1, 'Owner', 2), ($1, 'Maintainer', -1)
		on conflict (workspace_id, role) do update set members = excluded.members`
	countsAsChanged = `
		with gone as (delete from member_counts where workspace_id = $1 and role = 'Viewer')
		update member_counts set members = 2 where workspace_id = $1 and role = 'Owner'`
)

// repeatedEvent copies the genuine event that first made Eve a maintainer to the end of the log.
var repeatedEvent = []string{
	`alter table events drop constraint events_workspace_id_stream_version_key`,
	`with h as (update logs set head = head + 1 where workspace_id = $1 returning head, last_at)
		insert into events select e.workspace_id, h.head, e.id, e.stream, e.version, e.kind, e.schema, h.last_at, e.meta, e.data, e.mac
		from events e, h where e.workspace_id = $1 and e.kind = 'member.role_changed' order by e.seq limit 1`,
	`update members set role = 'Maintainer' where workspace_id = $1 and email = 'eve@x'`,
	`update member_counts set role = 'Maintainer' where workspace_id = $1 and role = 'Viewer'`,
}

// park marks every event as parked by a view.
func park(view string) string {
	return `insert into parked select workspace_id, '` + view + `', seq, kind, 'x', now() from events where workspace_id = $1`
}

// What an attacker with SQL but without the vault's key can do, and what detects it: the table in
// docs/trust.md, including what nothing detects.
func TestDetectionOfChangesBySQL(t *testing.T) {
	t.Parallel()
	origin := newSite(t)
	origin.db.Close()
	for name, c := range map[string]struct {
		sql          []string
		verify, rows bool // that detect it
	}{
		"change a signed event": {sql: []string{signedEvent}, verify: true, rows: true},
		"delete a signed event": {sql: []string{`delete from events where workspace_id = $1 and seq = 100`}, verify: true},
		"insert an event beyond the head": {sql: []string{`insert into events
			select workspace_id, 1000, gen_random_uuid(), gen_random_uuid(), 1, kind, schema, at, meta, data
			from events where workspace_id = $1 and seq = 5`}, verify: true},
		"change an unsigned event": {sql: []string{unsignedEvent}, verify: true, rows: true},
		"append an event":          {sql: []string{forgedEvent}, verify: true, rows: true},
		"set the head on":          {sql: []string{`update logs set head = head + 10 where workspace_id = $1`}, verify: true},
		"set the head back":        {sql: []string{`update logs set head = head - 1 where workspace_id = $1`}, verify: true, rows: true},
		"set the log's time":       {sql: []string{`update logs set last_at = '2031-01-01' where workspace_id = $1`}, verify: true},
		"end the log's time":       {sql: []string{`update logs set last_at = 'infinity' where workspace_id = $1`}, verify: true},
		"change the time of the newest event": {sql: []string{`update events set at = at + interval '1 second' where workspace_id = $1
			and seq = (select head from logs where workspace_id = $1)`}, verify: true},
		"set the prover's position on": {sql: []string{`update checkpoints set seq = seq + 10 where workspace_id = $1 and view = 'proof'`},
			verify: true},
		"set the bus's position on":   {sql: []string{`insert into checkpoints (workspace_id, view, seq) values ($1, 'bus', 1000)`}, rows: true},
		"set a view's position back":  {sql: []string{`update checkpoints set seq = 130 where workspace_id = $1 and view = 'audit'`}, rows: true},
		"change a role":               {sql: []string{ownerRow}, rows: true},
		"change a role and park why":  {sql: []string{ownerRow, park("members")}, rows: true},
		"cut a view off and park why": {sql: []string{`delete from audit where workspace_id = $1`, park("audit")}, rows: true},
		"give rows another form":      {sql: []string{ownerRow, `insert into views values ('members', 99, now())`}, rows: true},
		"put in a token": {sql: []string{`update service_tokens set fingerprint = sha256('mine') where workspace_id = $1`},
			rows: true},
		"link an account": {sql: []string{`insert into accounts select 'github/2', workspace_id, user_id, 'github', '2', 'eve', now()
			from users where workspace_id = $1`}, rows: true},
		"remove an audit row": {sql: []string{`delete from audit where ctid in (select ctid from audit where workspace_id = $1 limit 1)`},
			rows: true},
		"put in an authority": {sql: []string{`insert into authorities values ($1, gen_random_uuid(), 'x', now() + interval '1 day', false)`},
			rows: true},
		"put in a runner": {sql: []string{`insert into runners (workspace_id, runner_id, name, state, draining, note, noted_by, offline_reason,
				labels, exclusive_labels, capacity, agent_version, os, arch, sandboxes, serial, not_after, next_serial, enrollment_id, enrolled_at,
				changed_at)
			values ($1, gen_random_uuid(), 'mine', 'offline', false, '', '', '', '{}', '{}', 1, '', '', '', '{}', '4f', now(), '',
				gen_random_uuid(), now(), now())`}, rows: true},
		"put in the specification of a job": {sql: []string{`insert into job_specs values ($1, gen_random_uuid(), '{}')`}, rows: true},
		"name a value of a job's secret": {sql: []string{`insert into farm_secrets values ($1, 'KEY', gen_random_uuid(), '', now())`},
			rows: true},
		"move a global key": {sql: []string{`update global_keys set owner = gen_random_uuid() where workspace_id = $1
			and key = 'email/ann@x'`}, rows: true},
		"replace the verifier key": {sql: []string{`update vault_secrets set public = replace(public, '+', '-') where name = 'proof_signer'`},
			verify: true},

		"change an unsigned event and its rows": {sql: []string{unsignedEvent, ownerRow, countsAsChanged}, verify: true},
		"append an event and its rows":          {sql: []string{forgedEvent, ownerRow, countsAsAppended}, verify: true},
		"repeat a genuine event and its rows":   {sql: repeatedEvent, verify: true},

		// Nothing detects this.
		"publish a message on the bus": {sql: []string{`insert into bus_messages (topic, position, id, metadata, payload)
			values ('events', 1000, 'x', '{}', '')`}},
		"change the log of a job": {sql: []string{`insert into job_logs values ($1, gen_random_uuid(), 1, 0, now(), 'made up')`}},
		"change a job's lease": {sql: []string{`insert into job_leases (workspace_id, job_id, epoch, runner_id, renewed_at)
			values ($1, gen_random_uuid(), 1, gen_random_uuid(), now())`}},
		"say that a runner is online": {sql: []string{`insert into runner_presence
			values ($1, gen_random_uuid(), gen_random_uuid(), true, now(), now(), 1, 0, 0, 0, '{}')`}},
		"set a daily count back": {sql: []string{`insert into daily_counts values ($1, 'invitations', now(), -1000)`}},
		"change the time of an unsigned event": {sql: []string{`update events set at = at + interval '1 second' where workspace_id = $1
			and seq = (select head - 1 from logs where workspace_id = $1)`}},
		"change the MAC of a signed event": {sql: []string{`update events set mac = '\x00' where workspace_id = $1 and seq = 100`}},
		"change when a log was signed":     {sql: []string{`update proof_checkpoints set made_at = '2031-01-01' where workspace_id = $1`}},
		"change when a view was rebuilt":   {sql: []string{`update views set rebuilt_at = '2031-01-01'`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := origin.clone(t)
			for _, sql := range c.sql {
				args := []any{s.id}
				if !strings.Contains(sql, "$1") {
					args = nil
				}
				tag, err := s.db.Exec(t.Context(), sql, args...)
				require.NoError(t, err)
				require.True(t, tag.RowsAffected() > 0 || strings.HasPrefix(sql, "alter table"), sql)
			}
			s.sign(t)
			report, err := s.prover.Verify(t.Context(), s.id, "", nil)
			require.NoError(t, err)
			require.Equal(t, c.verify, report.Bad != nil, "%+v", report.Bad)
			if name == "delete a signed event" {
				return // the log cannot be folded
			}
			found, err := fold.Compare(t.Context(), s.db, projections.All(), s.id, fold.NoPause)
			if name == "set the head on" {
				require.ErrorContains(t, err, "is missing")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.rows, len(found.Differences)+len(found.Skipped) > 0, "%v", found.Differences)
		})
	}
}

// sign lets the prover sign all events that it accepts.
func (s *site) sign(t *testing.T) {
	t.Helper()
	over, stop := context.WithCancel(t.Context())
	stop()
	s.prover.Run(over)
}

// Nothing detects that the newest event was deleted before it was signed, with all that follows from it.
func TestUnsignedEventCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, sql := range []string{
		`delete from events e using logs l where l.workspace_id = $1 and (e.workspace_id, e.seq) = (l.workspace_id, l.head)`,
		`update logs l set head = head - 1, last_at = at from events e where l.workspace_id = $1 and (e.workspace_id, seq) = ($1, head - 1)`,
		`update members set role = 'Maintainer' where workspace_id = $1 and email = 'eve@x'`,
		`update member_counts set role = 'Maintainer' where workspace_id = $1 and role = 'Viewer'`,
		`delete from checkpoints where workspace_id = $1 and view <> 'proof'`,
		`delete from audit where workspace_id = $1`,
	} {
		_, err := s.db.Exec(t.Context(), sql, s.id)
		require.NoError(t, err)
	}
	s.catchUp(t)
	s.sign(t)
	report, err := s.prover.Verify(t.Context(), s.id, "", nil)
	require.NoError(t, err)
	require.Nil(t, report.Bad)
	found, err := fold.Compare(t.Context(), s.db, projections.All(), s.id, fold.NoPause)
	require.NoError(t, err)
	require.Empty(t, found.Differences)
}

// Setting back the whole database is detected only by a kept checkpoint.
func TestRollbackIsDetectedByKeptCheckpoint(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.sign(t)
	kept, err := s.prover.Verify(t.Context(), s.id, "", nil)
	require.NoError(t, err)
	require.Nil(t, kept.Bad)
	for _, sql := range []string{
		`delete from events where workspace_id = $1 and seq > 200`,
		`update logs l set head = 200, last_at = at from events e where l.workspace_id = $1 and (e.workspace_id, seq) = ($1, 200)`,
		`delete from proof_checkpoints where workspace_id = $1`, `delete from proof_hashes where workspace_id = $1`,
		`delete from proof_tiles where workspace_id = $1`,
		`delete from checkpoints where workspace_id = $1 and view = 'proof'`,
	} {
		_, err := s.db.Exec(t.Context(), sql, s.id)
		require.NoError(t, err)
	}
	s.sign(t)
	withoutKept, err := s.prover.Verify(t.Context(), s.id, "", nil)
	require.NoError(t, err)
	require.Nil(t, withoutKept.Bad, "it is signed anew, by the genuine key")
	withKept, err := s.prover.Verify(t.Context(), s.id, kept.Checkpoint, nil)
	require.NoError(t, err)
	require.NotNil(t, withKept.Bad)
}

// A session cannot be given to another person, and an inserted one is useless: rows and cookies are
// authenticated with a key that is not in the database. That a session lasts longer is not detected.
func TestSessionRowsAreAuthenticated(t *testing.T) {
	t.Parallel()
	s, logs := newSite(t), &logCapture{}
	list := &sessions.Store{
		DB: s.db, Secret: []byte("a secret of thirty-two characters"), Now: time.Now, Log: slog.New(slog.NewTextHandler(logs, nil)),
	}
	mine, err := list.Start(t.Context(), s.eve, s.id, "", "")
	require.NoError(t, err)
	cookie := list.Cookie(mine)
	change := func(set string, args ...any) {
		_, err := s.db.Exec(t.Context(), `update sessions set `+set+` where session_id = $1`, append([]any{mine.ID}, args...)...)
		require.NoError(t, err)
	}
	change(`expires_at = '2200-01-01'`)
	found, _, ok, err := list.Find(t.Context(), cookie.Value)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 2200, found.ExpiresAt.Year())
	require.Zero(t, logs.count("level=ERROR"))
	change(`user_id = $2`, s.owner)
	_, _, ok, err = list.Find(t.Context(), cookie.Value)
	require.NoError(t, err)
	require.False(t, ok, "it is nobody's")
	require.Equal(t, 1, logs.count("level=ERROR"))

	other := &sessions.Store{DB: s.db, Secret: []byte("another secret of an attacker's own"), Now: time.Now, Log: slog.Default()}
	forged, err := other.Start(t.Context(), s.owner, s.id, "", "")
	require.NoError(t, err)
	_, _, ok, err = list.Find(t.Context(), other.Cookie(forged).Value)
	require.NoError(t, err)
	require.False(t, ok, "its cookie is not signed")
}
