package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCredentials shows what counts when a request says more than one thing
// about who makes it and where.
func testCredentials(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	acme := s.id(t, "workspace acme")

	t.Run("a token has one workspace, however it is named", func(t *testing.T) {
		const line = "GET /api/v1/runs?status=active"
		want := v.ask(t, "reader", line, "").is(t, "200")
		for _, name := range []string{"", "acme", "ACME", acme, strings.ToUpper(acme)} {
			require.Equal(t, want.body, v.ask(t, "reader", line, "", "X-Svc-Tenant: "+name).is(t, "200", name).body)
		}
		for _, name := range []string{"globex", "ada", "acm", "acme2", "*", "-", "%61cme", "acme,globex", noID, acme + "0", "tenant\xff"} {
			v.ask(t, "reader", line, "", "X-Svc-Tenant: "+name).is(t, "404 tenant_not_found", name)
		}
	})

	t.Run("a person names the workspace, or is in their active one", func(t *testing.T) {
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

	t.Run("an Authorization header counts, a cookie beside it does not", func(t *testing.T) {
		ada := "Cookie: " + cookieName + "=" + s.sessions["ada"]
		const members, runs = "GET /api/v1/members", "GET /api/v1/runs?status=active"
		v.ask(t, "reader", members, "", ada).is(t, "403 service_principal_refused")
		v.ask(t, "farmer", runs, "", ada).is(t, "403 service_scope_missing")
		v.ask(t, "token nonsense", members, "", ada).is(t, "401 service_token_invalid")
		v.ask(t, "nobody", members, "", ada, "Authorization: ").is(t, "401 unauthenticated")
		v.ask(t, "ada@acme", members, "", "Authorization: Basic eDp5").is(t, "401 unauthenticated")
		v.ask(t, "reader", runs, "", ada, "X-Svc-Tenant: globex").is(t, "404 tenant_not_found")
	})

	t.Run("another site reads nothing new and writes nothing", func(t *testing.T) {
		before := v.heads(t)
		const read, write, body = "GET /api/v1/members", "POST /api/v1/service-accounts", `{"name":"planted","scopes":["api.read"]}`
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site"},
			{"Sec-Fetch-Site: same-site"}, // a sibling domain is another site
			{"Origin: https://elsewhere.example"},
			{"Origin: null"},
		} {
			v.ask(t, "ada@acme", read, "", from...).is(t, "200")
			v.ask(t, "ada@acme", write, body, from...).is(t, "403 cross_origin_refused")
			v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"x"}`, from...).is(t, "403 cross_origin_refused")
			v.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member leo@acme"), "", from...).is(t, "403 cross_origin_refused")
		}
		require.Equal(t, before, v.heads(t))
		v.ask(t, "reader", write, body, "Sec-Fetch-Site: cross-site").is(t, "403 service_principal_refused") // no browser adds a token
		for i, from := range [][]string{{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Origin: http://" + v.host}, nil} {
			name := "own-" + string(rune('a'+i))
			v.ask(t, "ada@acme", write, `{"name":"`+name+`","scopes":["api.read"]}`, from...).is(t, "201")
		}
	})
}
