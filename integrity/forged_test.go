package integrity_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

// handler returns what a process of the service decides commands with. It has nothing in memory.
func (s *site) handler(t *testing.T, logs *logCapture) *commands.Handler {
	t.Helper()
	log := store.New(s.db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	log.Authenticate(newRing(t))
	log.CheckLoads(newRing(t), s.prover.CheckSigned, slog.New(slog.NewTextHandler(logs, nil)))
	h := commands.New(log, time.Now)
	h.Views = commands.Views{
		Home: projections.Users{DB: s.db}.Home, StaleMemberships: projections.Members{DB: s.db}.WorkspacesWithOtherProfile,
	}
	h.LogTo(slog.New(slog.NewTextHandler(logs, nil)))
	return h
}

// Commands are not decided from events that this service neither appended nor signed, also if the rows match them. They
// are decided from signed events whose MACs cannot be checked.
func TestNothingIsDecidedFromForgedEvents(t *testing.T) {
	t.Parallel()
	origin := newSite(t)
	origin.db.Close()
	const noMACs = `update events set mac = '' where workspace_id = $1 and seq <= 260`
	for name, c := range map[string]struct {
		sql    []string
		forged bool
	}{
		"genuine events":                        {[]string{ownerRow}, false},
		"events of a build without MACs":        {[]string{noMACs, ownerRow}, false},
		"append an event and its rows":          {[]string{forgedEvent, ownerRow, countsAsAppended}, true},
		"append an event, and no log has MACs":  {[]string{noMACs, forgedEvent, ownerRow, countsAsAppended}, true},
		"change an unsigned event and its rows": {[]string{unsignedEvent, ownerRow, countsAsChanged}, true},
		"change a signed event":                 {[]string{signedEvent}, true},
		"change a signed event without MAC":     {[]string{noMACs, signedEvent}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, logs := origin.clone(t), &logCapture{}
			for _, sql := range c.sql {
				done, err := s.db.Exec(t.Context(), sql, s.id)
				require.NoError(t, err)
				require.NotZero(t, done.RowsAffected(), sql)
			}
			_, err := s.handler(t, logs).RenameWorkspace(t.Context(), commands.RenameWorkspace{
				Meta: commands.Meta{Workspace: s.id, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: s.eve, Name: "eve@x"}}},
				Name: new("Eve's"),
			})
			if !c.forged {
				require.Equal(t, fault.Denied, fault.As(err).Kind, "she is no Owner: %v", err)
				require.Zero(t, logs.count("level=ERROR"))
				return
			}
			require.ErrorIs(t, err, fault.ErrUnavailable)
			require.NotZero(t, logs.count("event was not appended by this service"))
		})
	}
}

// signIn signs in the account number 7 at a code host.
func (s *site) signIn(t *testing.T, h *commands.Handler) (commands.Person, error) {
	t.Helper()
	return h.SignIn(t.Context(), commands.SignIn{
		Account: events.UserAccountLinked{Provider: "github", Host: "https://github.com", Account: "7", Login: "mallory"},
		Name:    "Mallory", Emails: []string{"mallory@evil.example"},
	})
}

// Nobody becomes another person by SQL: neither by a log that they made, nor by changing the person's own, nor by a
// unique key. Views report the rows, and verify the logs.
func TestNobodySignsInAsAnotherPerson(t *testing.T) {
	t.Parallel()
	const (
		log = `'01980000-0000-7000-8000-000000000001'`
		key = `insert into global_keys values ('account/github/https://github.com/7', %s, (select user_id from users where email = 'ann@x'))`
	)
	origin := newSite(t)
	origin.db.Close()
	for name, c := range map[string]struct {
		sql          []string
		verify, rows bool // that detect it, in the person's log or in that of the attacker
	}{
		"a key": {[]string{strings.Replace(key, "%s", "$1", 1)}, false, true},
		"a key of their email": {[]string{`insert into global_keys
			select 'email/mallory@evil.example', $1, user_id from users where email = 'ann@x'`}, false, true},
		"a log": {[]string{
			strings.Replace(key, "%s", log, 1),
			`insert into logs values (` + log + `, 2, date_trunc('ms', now()))`,
			`insert into events select ` + log + `, 1, gen_random_uuid(), stream, 1, kind, schema, last_at, meta, data
				from events e, logs l where e.workspace_id = $1 and kind = 'user.registered' and l.workspace_id = ` + log,
			`insert into events select ` + log + `, 2, gen_random_uuid(), stream, 2, kind, schema, last_at, meta,
					replace(data::text, '"accountId":"1"', '"host":"https://github.com","accountId":"7"')::json
				from events e, logs l where e.workspace_id = $1 and kind = 'user.account_linked' and l.workspace_id = ` + log,
			`update users set workspace_id = ` + log + ` where workspace_id = $1`,
			`insert into accounts select 'github/https://github.com/7', ` + log + `, user_id, 'github', '7', 'ann', last_at from users, logs
				where email = 'ann@x' and logs.workspace_id = ` + log,
		}, true, true},
		"an event of their log": {[]string{strings.Replace(key, "%s", "$1", 1), `update events set mac = '',
			data = replace(data::text, '"accountId":"1"', '"host":"https://github.com","accountId":"7"')::json
			where workspace_id = $1 and kind = 'user.account_linked'`}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, logs := origin.clone(t), &logCapture{}
			for _, sql := range c.sql {
				args := []any{s.id}
				if !strings.Contains(sql, "$1") {
					args = nil
				}
				done, err := s.db.Exec(t.Context(), sql, args...)
				require.NoError(t, err)
				require.NotZero(t, done.RowsAffected(), sql)
			}
			for range 2 { // also once the log is signed, if it were
				p, err := s.signIn(t, s.handler(t, logs))
				require.ErrorIs(t, err, fault.ErrUnavailable, "%v", p)
				require.NotZero(t, logs.count("level=ERROR"))
				s.sign(t)
			}
			bad, different := 0, 0
			list, err := proof.Workspaces(t.Context(), s.db)
			require.NoError(t, err)
			for _, workspace := range list {
				report, err := s.prover.Verify(t.Context(), workspace, "", nil)
				require.NoError(t, err)
				if report.Bad != nil {
					bad++
				}
				found, err := fold.Compare(t.Context(), s.db, projections.All(), workspace, fold.NoPause)
				require.NoError(t, err)
				different += len(found.Differences)
			}
			require.Equal(t, c.verify, bad > 0)
			require.Equal(t, c.rows, different > 0)
		})
	}
	s := origin.clone(t)
	p, err := s.signIn(t, s.handler(t, &logCapture{}))
	require.NoError(t, err)
	require.True(t, p.New, "otherwise they are somebody new")
}
