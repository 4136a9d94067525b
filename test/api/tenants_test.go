package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCredentialPrecedence shows which credential and which workspace count when a request names several.
func testCredentialPrecedence(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	acme := s.id(t, "workspace acme")

	t.Run("a token works in its own workspace only", func(t *testing.T) {
		const line = "GET /api/v1/runs?status=active"
		want := v.ask(t, "reader", line, "").is(t, "200")
		for _, name := range []string{"", "acme", "ACME", acme, strings.ToUpper(acme)} {
			require.Equal(t, want.body, v.ask(t, "reader", line, "", "X-Svc-Tenant: "+name).is(t, "200", name).body)
		}
		for _, name := range []string{"globex", "ada", "acm", "acme2", "*", "-", "%61cme", "acme,globex", noID, acme + "0", "tenant\xff"} {
			v.ask(t, "reader", line, "", "X-Svc-Tenant: "+name).is(t, "404 tenant_not_found", name)
		}
	})

	t.Run("a person works in the named workspace, or else the active one", func(t *testing.T) {
		const line = "GET /api/v1/workspace"
		for name, slug := range map[string]string{
			"": "mia", "acme": "acme", "Acme": "acme", acme: "acme", strings.ToUpper(acme): "acme", "globex": "globex",
		} {
			require.Equal(t, slug, v.ask(t, "mia", line, "", "X-Svc-Tenant: "+name).is(t, "200", name).text(t, "slug"))
		}
		for _, name := range []string{"ada", "acm", "*", "-", "acme,globex", noID, "tenant\xff", strings.Repeat("a", 10_000)} {
			v.ask(t, "mia", line, "", "X-Svc-Tenant: "+name).is(t, "404 tenant_not_found", name)
		}
	})

	t.Run("an Authorization header takes precedence over a cookie", func(t *testing.T) {
		ada := "Cookie: " + cookieName + "=" + s.sessions["ada"]
		const members, runs = "GET /api/v1/members", "GET /api/v1/runs?status=active"
		v.ask(t, "reader", members, "", ada).is(t, "403 service_principal_refused")
		v.ask(t, "farmer", runs, "", ada).is(t, "403 service_scope_missing")
		v.ask(t, "token nonsense", members, "", ada).is(t, "401 service_token_invalid")
		v.ask(t, "nobody", members, "", ada, "Authorization: ").is(t, "401 unauthenticated")
		v.ask(t, "ada@acme", members, "", "Authorization: Basic eDp5").is(t, "401 unauthenticated")
		v.ask(t, "reader", runs, "", ada, "X-Svc-Tenant: globex").is(t, "404 tenant_not_found")
	})

	t.Run("cross-site requests write nothing", func(t *testing.T) {
		before := v.logHeads(t)
		const read, write, body = "GET /api/v1/members", "POST /api/v1/service-accounts", `{"name":"planted","scopes":["api.read"]}`
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site"},
			{"Sec-Fetch-Site: same-site"}, // from a sibling domain
			{"Origin: https://elsewhere.example"},
			{"Origin: null"},
		} {
			v.ask(t, "ada@acme", read, "", from...).is(t, "200")
			v.ask(t, "ada@acme", write, body, from...).is(t, "403 cross_origin_refused")
			v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"x"}`, from...).is(t, "403 cross_origin_refused")
			v.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member leo@acme"), "", from...).is(t, "403 cross_origin_refused")
		}
		require.Equal(t, before, v.logHeads(t))
		v.ask(t, "reader", write, body, "Sec-Fetch-Site: cross-site").is(t, "403 service_principal_refused") // not checked for tokens
		for i, from := range [][]string{
			{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Origin: http://" + v.host}, {"Origin: http://localhost:4000"}, nil,
		} {
			name := "own-" + string(rune('a'+i))
			v.ask(t, "ada@acme", write, `{"name":"`+name+`","scopes":["api.read"]}`, from...).is(t, "201")
		}
	})
}
