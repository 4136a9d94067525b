package farm_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/farm/certificate"
	"svc/http/farm"
	"svc/http/limit"
	"svc/vault"
)

// The header is accepted only from the gateway's own address, not from a forwarded one.
func TestHeaderIsAcceptedOnlyFromGateway(t *testing.T) {
	s := newSite(t)
	_, certificate := s.enrol(t)
	s.a.self(t, certificate).is(t, 200, "")
	for _, peer := range []string{"10.0.0.8:4711", "127.0.0.1:1", "[::1]:1", "pipe"} {
		a := s.a.ask(t, "GET", "/registrations/self", nil, shows(certificate), from(peer), func(r *http.Request) {
			r.Header.Set("X-Forwarded-For", "10.0.0.7")
			r.Header.Set("X-Real-Ip", "10.0.0.7")
			r.Header.Set("Forwarded", "for=10.0.0.7")
		})
		a.is(t, 401, "runner_certificate_required")
		require.Equal(t, "gateway_not_trusted", a.body.Get("details.reason").String())
	}
	a := s.a.ask(t, "GET", "/registrations/self", nil,
		func(r *http.Request) { r.Header["X_svc_client_cert"] = []string{url.PathEscape(certificate)} })
	require.Equal(t, "no_certificate", a.is(t, 401, "runner_certificate_required").body.Get("details.reason").String())

	anybody := newSite(t, func(c *farm.Config) { c.TrustedProxy = nil })
	_, certificate = anybody.enrol(t)
	anybody.a.ask(t, "GET", "/registrations/self", nil, shows(certificate), from("192.0.2.1:1")).is(t, 200, "")
	unset := newSite(t, func(c *farm.Config) { c.Header = "" })
	unset.a.self(t, certificate).is(t, 401, "runner_certificate_required")
}

// All invalid certificates get the same answer, whatever is wrong with them.
func TestInvalidCertificatesGetSameAnswer(t *testing.T) {
	s := newSite(t)
	runner, good := s.enrol(t)
	globex, owner := s.newWorkspace(t, "globex")
	_, err := s.a.server.Authority(t.Context(), globex)
	require.NoError(t, err)
	s.mint(t, owner)
	request, err := certificate.ReadRequest(csr(t, newKey(t)))
	require.NoError(t, err)
	by := func(a *certificate.Authority, workspace, runner events.ID, serial events.Certificate) string {
		serial.Key = request.Hash
		text, err := a.Issue("farm.example", workspace, runner, serial, request)
		require.NoError(t, err)
		return text
	}
	theirs := s.authority(t, globex)
	ours := s.authority(t, s.workspace)
	fresh := certificate.NewLeaf(ours.ID, request.Hash, epoch)
	old := certificate.NewLeaf(ours.ID, request.Hash, epoch.Add(-8*24*time.Hour))
	want := s.a.self(t, "x").is(t, 401, "runner_certificate_required").body.Raw
	expired := s.a.self(t, by(theirs, s.workspace, runner, old)).is(t, 401, "runner_certificate_required").body
	require.Equal(t, "certificate_expired", expired.Get("details.reason").String(), "it says so itself, whoever signed it")
	for name, text := range map[string]string{
		"another workspace's authority, our name": by(theirs, s.workspace, runner, fresh),
		"our authority, another workspace's name": by(ours, globex, runner, fresh),
		"a workspace that there is not":           by(ours, runner, runner, fresh),
		"a runner that there is not":              by(ours, s.workspace, globex, fresh),
		"a serial number that nobody issued":      by(ours, s.workspace, runner, fresh),
		"the authority's own":                     ours.PEM(),
		"two":                                     good + good,
	} {
		a := s.b.self(t, text).is(t, 401, "runner_certificate_required")
		require.Equal(t, want, a.body.Raw, name)
	}
	s.b.self(t, good).is(t, 200, "")
	require.Equal(t, []string{"authority.created", "enrollment.minted"}, s.kinds(t, globex), "nothing was recorded")
	require.NotContains(t, s.kinds(t, s.workspace), "runner.suspended")
}

// authority returns a workspace's authority with its key.
func (s *site) authority(t *testing.T, workspace events.ID) *certificate.Authority {
	t.Helper()
	key, text, err := s.a.server.Secrets.GetOrCreate(t.Context(), certificate.SecretName(workspace), nil)
	require.NoError(t, err)
	a, err := certificate.OpenAuthority(text, key)
	require.NoError(t, err)
	return a
}

// Forged certificates are counted by address before any query, and do not use up the limit of
// runners at that address.
func TestForgedCertificatesCostNoQuery(t *testing.T) {
	perMinute, err := limit.PerMinute(5)
	require.NoError(t, err)
	s := newSite(t, func(c *farm.Config) { c.Limit = perMinute })
	runner, good := s.enrol(t)
	request, err := certificate.ReadRequest(csr(t, newKey(t)))
	require.NoError(t, err)
	key, text, err := certificate.MakeAuthority(s.workspace, epoch)
	require.NoError(t, err)
	theirs, err := certificate.OpenAuthority(text, key)
	require.NoError(t, err)
	bad, err := theirs.Issue("farm.example", s.workspace, runner, certificate.NewLeaf(theirs.ID, request.Hash, epoch), request)
	require.NoError(t, err)

	s.a.self(t, good).is(t, 200, "")
	lookups := func() int64 { return s.a.server.Runners.DB.Stat().AcquireCount() }
	for range 4 { // the authority was not cached before
		s.a.self(t, bad).is(t, 401, "runner_certificate_required")
	}
	before := lookups()
	require.NotEmpty(t, s.a.self(t, bad).is(t, 429, "rate_limited").header.Get("Retry-After"))
	require.Equal(t, before, lookups())
	s.a.self(t, good).is(t, 200, "")

	_, err = s.a.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)
	for range 3 {
		s.a.self(t, good).is(t, 403, "runner_revoked")
	}
	s.a.self(t, good).is(t, 429, "rate_limited")
}

func TestRenewedCertificateReplacesPreviousOne(t *testing.T) {
	s := newSite(t)
	_, first := s.enrol(t)
	s.clock.move(5 * 24 * time.Hour)
	key := newKey(t)
	renewed := s.a.renew(t, first, key).is(t, 200, "")
	s.requireHead(t, renewed)
	second := renewed.body.Get("certificate").String()
	require.NotEqual(t, first, second)
	s.clock.move(time.Minute)
	require.Equal(t, renewed.body.Raw, s.b.renew(t, first, key).is(t, 200, "").body.Raw, "the answer was lost")
	s.b.self(t, first).is(t, 200, "")
	require.NotContains(t, s.kinds(t, s.workspace), "runner.certificate_superseded", "both count")

	s.b.self(t, second).is(t, 200, "")
	s.a.self(t, second).is(t, 200, "")
	kinds := s.kinds(t, s.workspace)
	require.Equal(t, []string{"runner.certificate_renewed", "runner.certificate_superseded"}, kinds[len(kinds)-2:])

	s.a.self(t, first).is(t, 403, "runner_suspended") // somebody has a copy
	s.b.self(t, second).is(t, 403, "runner_suspended")
	s.b.renew(t, second, newKey(t)).is(t, 403, "runner_suspended")
	kinds = s.kinds(t, s.workspace)
	require.Equal(t, []string{"runner.certificate_superseded", "runner.certificate_reused", "runner.suspended"}, kinds[len(kinds)-3:])
	s.a.self(t, first).is(t, 403, "runner_suspended")
	require.Equal(t, kinds, s.kinds(t, s.workspace), "it is recorded once")
}

// A certificate that was replaced before its first use is refused, and does not suspend the runner.
func TestUnusedReplacedCertificateDoesNotSuspend(t *testing.T) {
	s := newSite(t)
	_, first := s.enrol(t)
	s.clock.move(5 * 24 * time.Hour)
	lost := s.a.renew(t, first, newKey(t)).is(t, 200, "").body.Get("certificate").String()
	s.clock.move(time.Hour)
	kept := s.a.renew(t, first, newKey(t)).is(t, 200, "").body.Get("certificate").String()
	s.b.self(t, lost).is(t, 401, "runner_certificate_required")
	s.b.self(t, kept).is(t, 200, "")
	s.b.self(t, lost).is(t, 401, "runner_certificate_required")
	s.b.self(t, kept).is(t, 200, "")
}

// Each renewal is an event, so a runner must not be able to fill the log with them.
func TestRenewalsAreRateLimited(t *testing.T) {
	s := newSite(t)
	_, first := s.enrol(t)
	before := len(s.kinds(t, s.workspace))
	early := s.a.renew(t, first, newKey(t)).is(t, 429, "renewal_too_early")
	require.Equal(t, "201400", early.header.Get("Retry-After"), "a third of seven days and five minutes, which were over when it was issued")
	s.clock.move(5 * 24 * time.Hour)
	s.a.renew(t, first, newKey(t)).is(t, 200, "")
	for _, at := range []*replica{s.a, s.b, s.a, s.b} {
		at.renew(t, first, newKey(t)).is(t, 429, "renewal_too_early")
	}
	require.Len(t, s.kinds(t, s.workspace), before+1, "one renewal, and no record of refusals")
	s.clock.move(time.Hour)
	second := s.b.renew(t, first, newKey(t)).is(t, 200, "").body.Get("certificate").String()
	s.b.self(t, second).is(t, 200, "")
	s.a.renew(t, second, newKey(t)).is(t, 429, "renewal_too_early")
}

func TestRevokedRunnerIsRefusedAtEveryReplica(t *testing.T) {
	s := newSite(t)
	runner, certificate := s.enrol(t)
	s.a.self(t, certificate).is(t, 200, "")
	s.b.self(t, certificate).is(t, 200, "")
	_, err := s.a.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)
	for _, at := range []*replica{s.a, s.b} {
		at.self(t, certificate).is(t, 403, "runner_revoked")
		at.renew(t, certificate, newKey(t)).is(t, 403, "runner_revoked")
	}
	kinds := s.kinds(t, s.workspace)
	require.Equal(t, "runner.revoked", kinds[len(kinds)-1])
}

func TestRetiredAuthorityIsNotAccepted(t *testing.T) {
	s := newSite(t)
	_, certificate := s.enrol(t)
	_, err := s.db.Exec(t.Context(), `update authorities set retired = true where workspace_id = $1`, s.workspace)
	require.NoError(t, err)
	s.a.self(t, certificate).is(t, 401, "runner_certificate_required")
}

// If the vault key is lost, no certificate can be checked. After the authority is replaced, runners
// with a certificate are admitted again if the former authority's is kept, and machines enroll again.
func TestLostVaultKey(t *testing.T) {
	s := newSite(t)
	_, old := s.enrol(t)
	token := s.mint(t, s.owner)
	ring, err := vault.NewRing([]config.Secret{"a-key-that-is-another-one-than-before"})
	require.NoError(t, err)
	secrets := vault.Secrets{DB: s.db, Ring: ring}
	s.a.server.Secrets, s.b.server.Secrets = secrets, secrets
	key := newKey(t)
	s.a.register(t, token, key).is(t, 503, "authority_unavailable")
	s.a.renew(t, old, newKey(t)).is(t, 503, "authority_unavailable")
	s.a.self(t, old).is(t, 503, "authority_unavailable")
	require.Contains(t, s.logged.String(), "SVC_VAULT_MASTER_KEY")

	name := certificate.SecretName(s.workspace)
	require.NoError(t, secrets.Replace(t.Context(), name, name+vault.FormerSuffix, func() ([]byte, string, error) {
		return certificate.MakeAuthority(s.workspace, s.clock.now())
	}))
	s.a.self(t, old).is(t, 401, "runner_certificate_required")
	s.clock.move(time.Minute)
	var former string
	require.NoError(t, s.db.QueryRow(t.Context(), `select certificate from authorities where workspace_id = $1`, s.workspace).Scan(&former))
	require.NoError(t, secrets.Put(t.Context(), certificate.FormerName(s.workspace, former), []byte(former)))
	a := s.b.register(t, token, key).is(t, 201, "")
	s.a.self(t, a.body.Get("certificate").String()).is(t, 200, "")
	s.a.self(t, old).is(t, 200, "")
	renewed := s.a.renew(t, old, newKey(t)).is(t, 200, "").body
	require.Equal(t, a.body.Get("caCertificate").String(), renewed.Get("caCertificate").String())
	s.b.self(t, renewed.Get("certificate").String()).is(t, 200, "")
	created := 0
	for _, kind := range s.kinds(t, s.workspace) {
		if kind == "authority.created" {
			created++
		}
	}
	require.Equal(t, 2, created)
}
