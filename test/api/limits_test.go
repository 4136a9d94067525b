package api

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
)

// testRateLimit shows that each caller has a number of requests a minute, and
// each address a number of sign-ins.
func testRateLimit(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t), "SVC_RATE_LIMIT=3")
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
	v.ask(t, "reader", "GET /api/v1/members", "").is(t, "429 rate_limited") // all routes together

	v.ask(t, "ci-bot", runs, "").is(t, "200") // each token by itself
	v.ask(t, "vera@acme", runs, "").is(t, "200")
	v.ask(t, "nobody", runs, "").is(t, "401 unauthenticated")
	for range 2 { // made-up tokens share the limit of their address
		v.ask(t, "token "+commands.NewServiceToken().Reveal(), runs, "").is(t, "401 service_token_invalid")
	}
	v.ask(t, "token "+commands.NewServiceToken().Reveal(), runs, "").is(t, "429 rate_limited")
	v.ask(t, "nobody", runs, "").is(t, "429 rate_limited")
	v.ask(t, "vera@acme", runs, "").is(t, "200") // and hold up nobody who is known
	v.ask(t, "nobody", "GET /health/ready", "").is(t, "200")
	v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200")

	for range 3 { // and sign-ins have a limit of their own, which is no higher
		v.ask(t, "nobody", "POST /api/auth/sign-in/email", "no JSON").is(t, "400 BAD_REQUEST")
	}
	a = v.ask(t, "nobody", "POST /api/auth/sign-in/email", "no JSON").is(t, "429 rate_limited")
	requireSeconds(t, a, "Retry-After", 1, 20)
	v.ask(t, "vera", "GET /api/auth/get-session", "").is(t, "200")
	v.ask(t, "nobody", "POST /api/auth/sign-out", "").is(t, "200")
}

func requireSeconds(t *testing.T, a answer, header string, from, to int) {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get(header))
	require.NoError(t, err, header)
	require.GreaterOrEqual(t, n, from, header)
	require.LessOrEqual(t, n, to, header)
}
