package farm_test

import (
	"crypto"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/http/farm"
	"svc/http/limit"
	"svc/projections/farmviews"
)

func TestMachineBecomesRunner(t *testing.T) {
	s := newSite(t)
	token := s.mint(t, s.owner)
	a := s.a.register(t, token, newKey(t)).is(t, 201, "")
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "builder-1", a.body.Get("name").String())
	require.Equal(t, s.workspace.String(), a.body.Get("workspaceId").String())
	require.Equal(t, "wss://farm.example:4443/api/v1/farm/agent", a.body.Get("agentUrl").String())
	require.EqualValues(t, 10, a.body.Get("heartbeatSeconds").Int())
	require.EqualValues(t, 1<<20, a.body.Get("artifactMaxJobBytes").Int())
	require.Equal(t, `["ed25519:AAAA"]`, a.body.Get("releaseKeys").Raw)
	require.Equal(t, "2026-11-29T12:00:00.000Z", a.body.Get("notAfter").String())
	require.Equal(t, []string{"authority.created", "enrollment.minted", "enrollment.used", "runner.enrolled"}, s.kinds(t, s.workspace))
	s.requireHead(t, a)

	id, err := events.ParseID(a.body.Get("runnerId").String())
	require.NoError(t, err)
	r, ok, err := farmviews.Runners{DB: s.db}.Get(t.Context(), s.workspace, id)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, events.RunnerStateEnrolled, r.State)
	require.Equal(t, []string{"arch=amd64", "machine:disk=ssd", "os=linux", "pool=default", "runner=builder-1", "sandbox=none"}, r.Labels)
	require.Equal(t, 2, r.Capacity)

	for _, replica := range []*replica{s.a, s.b} {
		self := replica.self(t, a.body.Get("certificate").String()).is(t, 200, "")
		require.Equal(t, id.String(), self.body.Get("runnerId").String())
		require.Equal(t, "enrolled", self.body.Get("state").String())
		require.Equal(t, a.body.Get("serial").String(), self.body.Get("serial").String())
	}
	var kept int
	require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where data::text like '%' || $1 || '%'`,
		token.Reveal()).Scan(&kept))
	require.Zero(t, kept)
	require.NotContains(t, s.logged.String(), token.Reveal())
}

func TestTokenIsUsedOnce(t *testing.T) {
	s := newSite(t)
	token, key := s.mint(t, s.owner), newKey(t)
	first := s.a.register(t, token, key).is(t, 201, "")
	s.clock.move(time.Minute)
	again := s.b.register(t, token, key).is(t, 201, "")
	require.Equal(t, first.body.Raw, again.body.Raw, "a lost answer is given again, by any replica")

	another := newKey(t)
	before := s.kinds(t, s.workspace)
	s.b.register(t, token, another).is(t, 409, "enrollment_used")
	require.Equal(t, append(before, "enrollment.refused"), s.kinds(t, s.workspace))
	for range 20 {
		s.a.register(t, token, another).is(t, 409, "enrollment_used")
	}
	require.Len(t, s.kinds(t, s.workspace), len(before)+10, "so many are recorded")

	s.clock.move(15 * time.Minute)
	s.b.register(t, token, key).is(t, 401, "enrollment_invalid")
	runner, err := events.ParseID(first.body.Get("runnerId").String())
	require.NoError(t, err)
	s.a.self(t, first.body.Get("certificate").String()).is(t, 200, "")
	_, err = s.a.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)
}

// All invalid tokens get the same answer.
func TestInvalidTokensGetSameAnswer(t *testing.T) {
	s := newSite(t)
	late, revoked, taken := s.mint(t, s.owner), s.mint(t, s.owner), events.NewID(epoch)
	withdrawn := s.mint(t, s.owner, func(c *commands.MintEnrollment) { c.Enrollment = taken })
	_, err := s.a.commands.WithdrawEnrollment(t.Context(), commands.WithdrawEnrollment{Meta: s.owner, Enrollment: taken})
	require.NoError(t, err)
	key := newKey(t)
	runner, err := events.ParseID(s.a.register(t, revoked, key).is(t, 201, "").body.Get("runnerId").String())
	require.NoError(t, err)
	_, err = s.b.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
	require.NoError(t, err)

	want := s.a.register(t, bearer.NewEnrollmentToken(), key).is(t, 401, "enrollment_invalid").body.Raw
	require.Equal(t, want, s.a.register(t, withdrawn, key).body.Raw)
	require.Equal(t, want, s.a.register(t, revoked, key).body.Raw)
	require.Equal(t, want, s.a.register(t, "tok_enr_", key).body.Raw)
	require.Equal(t, want, s.a.register(t, "", key).body.Raw)
	require.Equal(t, want, s.a.register(t, bearer.EnrollmentToken(bearer.NewServiceToken().Reveal()), key).body.Raw)
	before := s.kinds(t, s.workspace)
	s.clock.move(15 * time.Minute)
	for range 3 {
		require.Equal(t, want, s.b.register(t, late, key).body.Raw)
	}
	require.Equal(t, append(before, "enrollment.expired"), s.kinds(t, s.workspace), "that somebody tried is recorded once")
}

// A machine that is uninstalled revokes its own runner, and no other.
func TestRunnerDeregistersItself(t *testing.T) {
	s := newSite(t)
	enrol := func() (events.ID, string) {
		a := s.a.register(t, s.mint(t, s.owner), newKey(t)).is(t, 201, "")
		id, err := events.ParseID(a.body.Get("runnerId").String())
		require.NoError(t, err)
		return id, a.body.Get("certificate").String()
	}
	id, certificate := enrol()
	_, other := enrol()
	s.a.ask(t, "DELETE", "/registrations/self", nil).is(t, 401, "runner_certificate_required")
	s.a.self(t, certificate).is(t, 200, "")
	a := s.a.ask(t, "DELETE", "/registrations/self", nil, shows(certificate)).is(t, 204, "")
	s.requireHead(t, a)
	r, ok, err := farmviews.Runners{DB: s.db}.Get(t.Context(), s.workspace, id)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, events.RunnerStateRevoked, r.State)
	require.Equal(t, "svc-runner was uninstalled.", r.Note)
	require.Empty(t, r.NotedBy, "it was no person")
	for _, replica := range []*replica{s.a, s.b} {
		replica.self(t, certificate).is(t, 403, "runner_revoked")
		replica.ask(t, "DELETE", "/registrations/self", nil, shows(certificate)).is(t, 403, "runner_revoked")
		replica.self(t, other).is(t, 200, "")
	}
}

// However many machines show a token at the same moment, to whichever replica, as many become runners as it is for. They are
// behind one address, whose limit they do not use up.
func TestReusableTokenEnrollsExactlyItsNumber(t *testing.T) {
	few := func() *limit.Limit {
		l, err := limit.PerMinute(10)
		require.NoError(t, err)
		return l
	}
	s := newSite(t, func(c *farm.Config) { c.EnrollmentLimit, c.TokenEnrollmentLimit = few(), few() })
	taken := events.NewID(epoch)
	token := s.mint(t, s.owner, func(c *commands.MintEnrollment) {
		c.Enrollment, c.Name, c.Uses, c.Lasts = taken, "", 14, 30*24*time.Hour
	})
	keys := make([]crypto.Signer, 16)
	for i := range keys {
		keys[i] = newKey(t)
	}
	first := s.a.register(t, token, keys[0]).is(t, 201, "")
	for _, key := range keys[1:12] { // more than the limits
		s.a.register(t, token, key).is(t, 201, "")
	}
	var wait sync.WaitGroup
	statuses := make([]int, 4)
	for i := range statuses {
		wait.Go(func() { statuses[i] = []*replica{s.a, s.b}[i%2].register(t, token, keys[12+i]).status })
	}
	wait.Wait()
	slices.Sort(statuses)
	require.Equal(t, []int{201, 201, 409, 409}, statuses)
	n, ok, err := farmviews.Enrollments{DB: s.db}.Get(t.Context(), s.workspace, taken, s.clock.now())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "used 14 14", fmt.Sprint(n.Status, " ", n.Uses, " ", n.Used))
	var runners int
	require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from runners where workspace_id = $1 and enrollment_id = $2`,
		s.workspace, taken).Scan(&runners))
	require.Equal(t, 14, runners)

	s.clock.move(3 * 24 * time.Hour)
	renewed := s.a.ask(t, "POST", "/registrations/renew", map[string]any{"csr": csr(t, newKey(t))},
		shows(first.body.Get("certificate").String())).is(t, 200, "")
	s.a.register(t, token, keys[0]).is(t, 401, "enrollment_invalid") // its certificate is one of another key
	s.a.self(t, renewed.body.Get("certificate").String()).is(t, 200, "")
}

func TestOneOfManyMachinesWithSameTokenIsEnrolled(t *testing.T) {
	s := newSite(t)
	for range 5 {
		token := s.mint(t, s.owner)
		var wait sync.WaitGroup
		statuses := make([]int, 8)
		for i := range statuses {
			key, at := newKey(t), []*replica{s.a, s.b}[i%2]
			wait.Go(func() { statuses[i] = at.register(t, token, key).status })
		}
		wait.Wait()
		won := 0
		for _, status := range statuses {
			if status == http.StatusCreated {
				won++
			} else {
				require.Equal(t, http.StatusConflict, status)
			}
		}
		require.Equal(t, 1, won)
	}
	var runners int
	require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from runners where workspace_id = $1`, s.workspace).Scan(&runners))
	require.Equal(t, 5, runners)
}

func TestBadRequestDoesNotUseToken(t *testing.T) {
	s := newSite(t)
	token := s.mint(t, s.owner)
	agent := map[string]any{"version": "0.4.0", "os": "linux", "arch": "amd64"}
	for field, body := range map[string]map[string]any{
		"csr":      {"token": token.Reveal(), "csr": "x", "agent": agent},
		"labels":   {"token": token.Reveal(), "csr": csr(t, newKey(t)), "agent": agent, "labels": []string{"os=plan9"}},
		"capacity": {"token": token.Reveal(), "csr": csr(t, newKey(t)), "agent": agent, "capacity": 65},
		"agent.version": {"token": token.Reveal(), "csr": csr(t, newKey(t)),
			"agent": map[string]any{"version": "a b", "os": "linux", "arch": "amd64"}},
		"admin": {"token": token.Reveal(), "csr": csr(t, newKey(t)), "agent": agent, "admin": true},
	} {
		a := s.a.ask(t, "POST", "/registrations", body).is(t, 422, "validation_failed")
		require.True(t, a.body.Get("details").Get(strings.ReplaceAll(field, ".", `\.`)).Exists(), "%s: %s", field, a.body.Raw)
	}
	require.Equal(t, []string{"authority.created", "enrollment.minted"}, s.kinds(t, s.workspace))
	s.a.register(t, token, newKey(t)).is(t, 201, "")
}

func TestEnrollmentAttemptsAreBounded(t *testing.T) {
	tenPerMinute := func() *limit.Limit {
		l, err := limit.PerMinute(10)
		require.NoError(t, err)
		return l
	}
	perAddress, perToken := tenPerMinute(), tenPerMinute()
	s := newSite(t, func(c *farm.Config) { c.EnrollmentLimit, c.TokenEnrollmentLimit = perAddress, perToken })
	key, none := newKey(t), bearer.NewEnrollmentToken()
	for i := range 200 { // from many addresses
		s.a.register(t, none, key, from(fmt.Sprintf("192.0.2.%d:1", i%20))).is(t, 401, "enrollment_invalid")
	}
	a := s.a.register(t, none, key, from("192.0.2.1:2")).is(t, 429, "rate_limited")
	require.NotEmpty(t, a.header.Get("Retry-After"))

	token, other := s.mint(t, s.owner), s.mint(t, s.owner, func(c *commands.MintEnrollment) { c.Name = "builder-2" })
	address := 0
	register := func(token bearer.EnrollmentToken, key crypto.Signer) answer {
		address++
		return s.a.register(t, token, key, from(fmt.Sprintf("198.51.100.%d:1", address)))
	}
	for range 11 { // all but the first repeat it
		register(token, key).is(t, 201, "")
	}
	a = register(token, key).is(t, 429, "rate_limited")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	register(other, newKey(t)).is(t, 201, "")
}

func TestRoutesWhenFarmIsOff(t *testing.T) {
	s := newSite(t, func(c *farm.Config) { c.Enabled = false })
	for _, m := range s.a.server.Operations() {
		path := strings.TrimPrefix(m.Operation.Path, "/api/v1/farm")
		s.a.ask(t, m.Operation.Method, strings.ReplaceAll(path, "{id}", s.workspace.String()), nil).is(t, 404, "farm_off")
	}
}
