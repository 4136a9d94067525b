package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// listOneRun is a cheap request that every token with scope api.read and every member may send.
const listOneRun = "GET /api/v1/runs?status=active&limit=1"

// testRevocation shows that a revoked right is refused at the next request, through either of two services
// on one database.
func testRevocation(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	one, other := s.serve(t, database), s.serve(t, database)
	// alternate calls test n times, with the services swapped each time.
	alternate := func(n int, test func(i int, one, other *service)) {
		for i := range n {
			test(i, one, other)
			one, other = other, one
		}
	}

	t.Run("a rotated token", func(t *testing.T) {
		created := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", `{"name":"rotating","scopes":["api.read"]}`).is(t, "201")
		account, token := created.text(t, "account.id"), created.text(t, "token")
		alternate(100, func(_ int, one, other *service) {
			old := token
			other.ask(t, "token "+old, listOneRun, "").is(t, "200")
			token = one.ask(t, "mia@acme", "POST /api/v1/service-accounts/"+account+"/rotate", "").is(t, "200").text(t, "token")
			other.ask(t, "token "+old, listOneRun, "").is(t, "401 service_token_invalid")
			one.ask(t, "token "+old, listOneRun, "").is(t, "401 service_token_invalid")
			other.ask(t, "token "+token, listOneRun, "").is(t, "200")
			one.ask(t, "token "+token, listOneRun, "").is(t, "200")
		})
		one.requireOneStaleUse(t, account)
	})

	t.Run("a revoked account", func(t *testing.T) {
		alternate(20, func(i int, one, other *service) {
			created := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", fmt.Sprintf(`{"name":"passing-%d","scopes":["api.read"]}`, i)).is(t,
				"201")
			as := "token " + created.text(t, "token")
			other.ask(t, as, listOneRun, "").is(t, "200")
			one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
			other.ask(t, as, listOneRun, "").is(t, "401 service_token_invalid")
			one.ask(t, as, listOneRun, "").is(t, "401 service_token_invalid")
		})
	})

	t.Run("a demoted Maintainer", func(t *testing.T) {
		maintainer, leo := "PATCH /api/v1/members/"+s.id(t, "member max@acme"), "PATCH /api/v1/members/"+s.id(t, "member leo@acme")
		alternate(20, func(i int, one, other *service) {
			flag := fmt.Sprintf(`{"canApproveLoops":%t}`, i%2 == 0)
			other.ask(t, "max@acme", leo, flag).is(t, "200")
			one.ask(t, "ada@acme", maintainer, `{"role":"Viewer"}`).is(t, "200")
			other.ask(t, "max@acme", leo, flag).is(t, "403 role_required")
			one.ask(t, "max@acme", leo, flag).is(t, "403 role_required")
			one.ask(t, "ada@acme", maintainer, `{"role":"Maintainer"}`).is(t, "200")
		})
	})

	t.Run("a demoted Owner", func(t *testing.T) {
		ben := "PATCH /api/v1/members/" + s.id(t, "member ben@acme")
		alternate(10, func(i int, one, other *service) {
			rename := fmt.Sprintf(`{"name":"Acme %d"}`, i)
			other.ask(t, "ben@acme", "PATCH /api/v1/workspace", rename).is(t, "200")
			one.ask(t, "ada@acme", ben, `{"role":"Maintainer"}`).is(t, "200")
			other.ask(t, "ben@acme", "PATCH /api/v1/workspace", rename).is(t, "403 role_required")
			other.ask(t, "ben@acme", ben, `{"role":"Owner"}`).is(t, "403 owner_required")
			one.ask(t, "ada@acme", ben, `{"role":"Owner"}`).is(t, "200")
		})
	})

	t.Run("a removed member", func(t *testing.T) {
		people := []string{"vera", "leo", "max", "ben"}
		alternate(len(people), func(i int, one, other *service) {
			as := people[i] + "@acme"
			other.ask(t, as, listOneRun, "").is(t, "200")
			one.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member "+as), "").is(t, "204")
			other.ask(t, as, listOneRun, "").is(t, "404 tenant_not_found")
			one.ask(t, as, listOneRun, "").is(t, "404 tenant_not_found")
			other.ask(t, people[i], listOneRun, "").is(t, "200") // in their own workspace
		})
	})

	t.Run("a session", func(t *testing.T) {
		alternate(2, func(_ int, one, other *service) {
			cookie := "Cookie: " + cookieName + "=" + one.signIn(t, "ada")
			other.ask(t, "nobody", listOneRun, "", cookie).is(t, "200")
			one.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
			other.ask(t, "nobody", listOneRun, "", cookie).is(t, "401 unauthenticated")
		})
	})

	t.Run("read your own writes", func(t *testing.T) {
		alternate(10, func(i int, one, other *service) {
			a := one.ask(t, "ada@acme", "PATCH /api/v1/workspace", fmt.Sprintf(`{"name":"Acme again %d"}`, i)).is(t, "200")
			position := a.header.Get("X-Svc-Position")
			log := other.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "X-Svc-Min-Position: "+position).is(t, "200")
			require.Equal(t, position, fmt.Sprint(log.at(t, "items.0.seq")))
			require.Equal(t, fmt.Sprintf("Acme again %d", i), log.text(t, "items.0.changes.0.to"))
		})
	})
}

// requireOneStaleUse waits for the event that a rotated token was used. There is only one, however often
// it was used through either service, since one an hour is recorded.
func (v *service) requireOneStaleUse(t *testing.T, account string) {
	t.Helper()
	eventually(t, func() bool {
		n := len(queryRows[string](t, v, `select id::text from events where stream = $1 and kind = 'service_account.stale_token_used'`, account))
		require.LessOrEqual(t, n, 1)
		return n == 1
	})
}
