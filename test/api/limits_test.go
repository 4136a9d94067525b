package api

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands/bearer"
)

// testRateLimit shows that requests are limited per caller and minute, and sign-ins per address and minute.
// Each limit is used up and exceeded by consecutive requests, before it allows one more after 20 seconds.
func testRateLimit(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=3")
	const runs = "GET /api/v1/runs?status=active&limit=1"

	for i := range 3 {
		a := v.ask(t, "reader", runs, "").is(t, "200")
		require.Equal(t, "3", a.header.Get("RateLimit-Limit"))
		require.Equal(t, strconv.Itoa(2-i), a.header.Get("RateLimit-Remaining"))
		require.Empty(t, a.header.Get("Retry-After"))
	}
	a := v.ask(t, "reader", runs, "").is(t, "429 rate_limited")
	require.Equal(t, "0", a.header.Get("RateLimit-Remaining"))
	requireSeconds(t, a, "Retry-After", 1, 20) // one request every twenty seconds
	requireSeconds(t, a, "RateLimit-Reset", 40, 60)
	v.ask(t, "reader", "GET /api/v1/members", "").is(t, "429 rate_limited") // one limit for all routes

	v.ask(t, "ci-bot", runs, "").is(t, "200") // each token has its own limit

	for range 3 { // sign-ins have a separate limit of the same height
		v.ask(t, "nobody", "POST /api/auth/sign-in/email", "no JSON").is(t, "400 BAD_REQUEST")
	}
	a = v.ask(t, "nobody", "POST /api/auth/sign-in/email", "no JSON").is(t, "429 rate_limited")
	requireSeconds(t, a, "Retry-After", 1, 20)
	v.ask(t, "nobody", "POST /api/auth/sign-out", "").is(t, "200")

	// A person has one limit for /api/auth and /api/v1.
	v.ask(t, "vera@acme", runs, "").is(t, "200")
	v.ask(t, "vera@acme", runs, "").is(t, "200")
	a = v.ask(t, "vera", "GET /api/auth/get-session", "").is(t, "200")
	require.Equal(t, "0", a.header.Get("RateLimit-Remaining"))
	for _, line := range []string{
		"GET /api/auth/get-session", "GET /api/auth/organization/list", "POST /api/auth/organization/create",
		"GET /api/auth/list-sessions", "GET /api/v1/members",
	} {
		a = v.ask(t, "vera", line, "").is(t, "429 rate_limited", line)
		requireSeconds(t, a, "Retry-After", 1, 20)
		if strings.Contains(line, "/auth/") {
			require.Equal(t, a.header.Get("Retry-After"), a.header.Get("X-Retry-After"), "for Better Auth's clients")
		}
	}
	v.ask(t, "vera", "POST /api/auth/sign-out", "").is(t, "200") // signing out is never refused

	v.ask(t, "nobody", runs, "").is(t, "401 unauthenticated")
	for range 2 { // unknown tokens share the limit of their address
		v.ask(t, "token "+bearer.NewServiceToken().Reveal(), runs, "").is(t, "401 service_token_invalid")
	}
	v.ask(t, "token "+bearer.NewServiceToken().Reveal(), runs, "").is(t, "429 rate_limited")
	v.ask(t, "nobody", runs, "").is(t, "429 rate_limited")
	v.ask(t, "vera", "GET /api/auth/organization/list", "").is(t, "429 rate_limited", "counts for the address now")
	v.ask(t, "nobody", "GET /api/auth/organization/list", "").is(t, "401 UNAUTHORIZED")
	v.ask(t, "mia@acme", runs, "").is(t, "200") // which does not count for known callers
	v.ask(t, "ada", "GET /api/auth/get-session", "").is(t, "200")
	v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200")
}

// testDailyQuotas shows that a person's daily quotas are counted over both APIs and all processes, and
// survive a restart.
func testDailyQuotas(t *testing.T, s *fixture) {
	avoidMidnight()
	database := s.cloneDatabase(t)
	start := func() *service {
		return s.serve(t, database, "SVC_RATE_LIMIT=1000", "SVC_DAILY_WORKSPACES=2", "SVC_DAILY_INVITATIONS=4")
	}
	v, other := start(), start()
	requireExhausted := func(a answer) {
		t.Helper()
		a.is(t, "429 rate_limited")
		requireSeconds(t, a, "Retry-After", 1, 24*60*60)
		require.Contains(t, a.text(t, "message"), "The next day begins at midnight UTC.")
	}
	create := func(v *service, as, slug string) answer {
		return v.ask(t, as, "POST /api/auth/organization/create", fmt.Sprintf(`{"name": "One more", "slug": %q}`, slug))
	}
	create(v, "ada", "ada-1").is(t, "200")
	create(v, "ada", "ada-1").is(t, "400 ORGANIZATION_ALREADY_EXISTS")
	create(other, "ada", "ada-2").is(t, "200")

	const send, invite = "POST /api/v1/invitations", "POST /api/auth/organization/invite-member"
	first := v.ask(t, "ada@acme", send, `{"email": "one@home.example"}`).is(t, "201").text(t, "id")
	acme := s.id(t, "workspace acme")
	inviteBody := func(email, moreFields string) string {
		return fmt.Sprintf(`{"organizationId": %q, "email": %q, "role": "viewer"%s}`, acme, email, moreFields)
	}
	other.ask(t, "ada", invite, inviteBody("two@home.example", "")).is(t, "200")
	other.ask(t, "ada", invite, inviteBody("two@home.example", `, "resend": true`)).is(t, "200")
	v.ask(t, "ada@acme", "POST /api/v1/invitations/"+first+"/resend", "").is(t, "200")

	v.stop(t)
	for _, v := range []*service{other, start()} {
		requireExhausted(create(v, "ada", "ada-3"))
		requireExhausted(v.ask(t, "ada@acme", send, `{"email": "three@home.example"}`))
		requireExhausted(v.ask(t, "ada@acme", "POST /api/v1/invitations/"+first+"/resend", ""))
		requireExhausted(v.ask(t, "ada", invite, inviteBody("three@home.example", "")))
		requireExhausted(v.ask(t, "ada", invite, inviteBody("two@home.example", `, "resend": true`)))
		v.ask(t, "vera@acme", send, `{"email": "three@home.example"}`).is(t, "403 role_required")
	}
	create(other, "mia", "mia-1").is(t, "200")
	other.ask(t, "mia@acme", send, `{"email": "three@home.example"}`).is(t, "201")

	testDailyQuotasOfAddressesAndAccounts(t, s)

	testDailyQuotaOfJobs(t, s)

	unbounded := s.serve(t, database) // SVC_RATE_LIMIT=0
	create(unbounded, "ada", "ada-3").is(t, "200")
	unbounded.ask(t, "ada@acme", send, `{"email": "four@home.example"}`).is(t, "201")
}

func testDailyQuotasOfAddressesAndAccounts(t *testing.T, s *fixture) {
	avoidMidnight()
	v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=1000", "SVC_DAILY_INVITATIONS_PER_ADDRESS=2", "SVC_DAILY_SERVICE_ACCOUNTS=1")
	const send, account = "POST /api/v1/invitations", "POST /api/v1/service-accounts"
	first := v.ask(t, "ada@acme", send, `{"email": "one@home.example"}`).is(t, "201").text(t, "id")
	v.ask(t, "ada@acme", "POST /api/v1/invitations/"+first+"/resend", "").is(t, "200")
	a := v.ask(t, "ada@acme", "POST /api/v1/invitations/"+first+"/resend", "").is(t, "429 rate_limited")
	requireSeconds(t, a, "Retry-After", 1, 24*60*60)
	require.Equal(t, "You have sent 2 invitations to this address today, as many as a person "+
		"may in a day. The next day begins at midnight UTC.", a.text(t, "message"))
	v.ask(t, "ada@acme", send, `{"email": "two@home.example"}`).is(t, "201")

	v.ask(t, "ada@acme", account, `{"name": "one", "scopes": ["api.read"]}`).is(t, "201")
	a = v.ask(t, "ada@acme", account, `{"name": "two", "scopes": ["api.read"]}`).is(t, "429 rate_limited")
	requireSeconds(t, a, "Retry-After", 1, 24*60*60)
	v.ask(t, "mia@acme", account, `{"name": "two", "scopes": ["api.read"]}`).is(t, "201")
}

// avoidMidnight waits for midnight UTC, when processes begin to count again, if it is less than a minute away.
func avoidMidnight() {
	const day = 24 * time.Hour
	if left := day - time.Since(time.Now().Truncate(day)); left < time.Minute {
		<-time.After(left)
	}
}

// testDailyQuotaOfJobs shows that the size of the job specifications that a workspace submits in a day is limited.
func testDailyQuotaOfJobs(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=1000", "SVC_DAILY_JOB_MEBIBYTES=1")
	job := func(key string, kib int) string {
		steps := strings.Repeat(fmt.Sprintf(`,{"run":%q}`, strings.Repeat("x", 15<<10)), kib/15)
		return fmt.Sprintf(`{"name":"large","idempotencyKey":%q,"steps":[{"run":"true"}%s]}`, key, steps)
	}
	const submit = "POST /api/v1/farm/jobs"
	for i := range 3 {
		v.ask(t, "mia@acme", submit, job(strconv.Itoa(i), 225)).is(t, "201")
	}
	a := v.ask(t, "mia@acme", submit, job("too much of one", 225)).is(t, "429 farm_jobs_too_large")
	requireSeconds(t, a, "Retry-After", 60, 24*60*60)
	v.ask(t, "ci-bot", submit, job("of another", 225)).is(t, "201")
	for range 3 { // which counts for nobody
		v.ask(t, "ci-bot", submit, job("too much of all", 225)).is(t, "429 farm_jobs_too_large")
	}
	v.ask(t, "mia@acme", submit, job("0", 225)).is(t, "200") // repeats an accepted job
	v.ask(t, "ci-bot", submit, job("small", 15)).is(t, "201")
	v.ask(t, "greta@globex", submit, job("elsewhere", 225)).is(t, "201")
}

// requireSeconds requires a header with a number of seconds within a range.
func requireSeconds(t *testing.T, a answer, header string, from, to int) {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get(header))
	require.NoError(t, err, header)
	require.GreaterOrEqual(t, n, from, header)
	require.LessOrEqual(t, n, to, header)
}
