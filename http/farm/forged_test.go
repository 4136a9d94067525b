package farm_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/certificate"
	"svc/farm/wire"
)

// forge returns a certificate for a runner, with the serial number in its row, and the certificate of
// the authority that signed it, which anybody could have made.
func (s *site) forge(t *testing.T, runner events.ID) (leaf, authority string) {
	t.Helper()
	key, authority, err := certificate.MakeAuthority(s.workspace, s.clock.now())
	require.NoError(t, err)
	a, err := certificate.OpenAuthority(authority, key)
	require.NoError(t, err)
	request, err := certificate.ReadRequest(csr(t, newKey(t)))
	require.NoError(t, err)
	c := certificate.NewLeaf(a.ID, request.Hash, s.clock.now())
	require.NoError(t, s.db.QueryRow(t.Context(), `select serial from runners where workspace_id = $1 and runner_id = $2`,
		s.workspace, runner).Scan(&c.Serial))
	leaf, err = a.Issue("farm.example", s.workspace, runner, c, request)
	require.NoError(t, err)
	return leaf, authority
}

// Whoever can write to the database, but has no vault key, cannot make a certificate that is accepted.
func TestForgedAuthorityIsNotTrusted(t *testing.T) {
	s, server := connectable(t)
	runner, genuine := s.enrol(t)
	globex, owner := s.newWorkspace(t, "globex")
	s.mint(t, owner)
	forged, authority := s.forge(t, runner)
	refused := func() {
		t.Helper()
		s.a.self(t, forged).is(t, 401, "runner_certificate_required")
		_, answer := connectTo(t, server, forged)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		s.b.self(t, forged).is(t, 401, "runner_certificate_required")
	}
	change := func(sql string, args ...any) {
		t.Helper()
		tag, err := s.db.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	refused()
	require.NotContains(t, s.logged.String(), "level=ERROR")

	change(`insert into authorities values ($1, gen_random_uuid(), $2, now() + '20 days', false)`, s.workspace, authority)
	refused()
	require.Equal(t, 2, strings.Count(s.logged.String(), "level=ERROR"), "once for each replica: %s", s.logged)
	s.a.self(t, genuine).is(t, 200, "")
	s.clock.move(time.Hour)
	refused()
	require.Equal(t, 4, strings.Count(s.logged.String(), "level=ERROR"), "and again later: %s", s.logged)

	change(`update vault_secrets set public = $2 where name = $1`, certificate.SecretName(s.workspace), authority)
	refused()
	change(`insert into vault_secrets select $2, sealed, key_id, $3, now() from vault_secrets where name = $1`,
		certificate.SecretName(globex), certificate.FormerName(s.workspace, authority), authority)
	s.clock.move(time.Hour)
	refused()
	s.a.self(t, genuine).is(t, 200, "")
	change(`update authorities set certificate = $2 where workspace_id = $1 and certificate <> $2`, s.workspace, authority)
	refused()
	change(`delete from vault_secrets where name = $1`, certificate.SecretName(s.workspace))
	s.clock.move(time.Hour)
	refused()
}

// A row in which a revoked runner is not revoked gives it no connection: hellos are decided from the log.
func TestHelloOfRevokedRunnerIsRefusedByLog(t *testing.T) {
	s, server := connectable(t)
	runner, certificate := s.enrol(t)
	_, err := s.a.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)
	_, err = s.db.Exec(t.Context(), `update runners set state = 'offline' where workspace_id = $1`, s.workspace)
	require.NoError(t, err)
	socket, answer := connectTo(t, server, certificate)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	say(t, socket, wire.Hello{Version: "0.4.0", OS: "linux", Arch: "amd64", Capacity: 2})
	_, _, err = socket.ReadMessage()
	require.True(t, websocket.IsCloseError(err, wire.CloseRevoked), "%v", err)
}

// A row that is no certificate does not stop runners either.
func TestUnreadableAuthorityIsIgnored(t *testing.T) {
	s := newSite(t)
	_, genuine := s.enrol(t)
	_, err := s.db.Exec(t.Context(), `insert into authorities values ($1, gen_random_uuid(), 'x', now(), false)`, s.workspace)
	require.NoError(t, err)
	s.a.self(t, genuine).is(t, 200, "")
	require.Equal(t, 1, strings.Count(s.logged.String(), "level=ERROR"))
}

// The vault is asked once for each authority, not with each request.
func TestCheckedAuthoritiesAreCached(t *testing.T) {
	s := newSite(t)
	_, genuine := s.enrol(t)
	queries := func() int64 {
		before := s.a.server.Secrets.DB.Stat().AcquireCount()
		s.a.self(t, genuine).is(t, 200, "")
		return s.a.server.Secrets.DB.Stat().AcquireCount() - before
	}
	require.EqualValues(t, 2, queries(), "the runner with its authorities, and the vault")
	require.EqualValues(t, 1, queries())
}
