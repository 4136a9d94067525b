package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const aRead = "GET /api/v1/runs?status=active&limit=1"

// testRevocation shows that what was taken away is gone for the next request,
// whichever of two services on one database it goes to.
func testRevocation(t *testing.T, s *site) {
	database := s.clone(t)
	one, other := s.serve(t, database), s.serve(t, database)
	turns := func(n int, turn func(i int, one, other *service)) {
		for i := range n {
			turn(i, one, other)
			one, other = other, one
		}
	}

	t.Run("a rotated token", func(t *testing.T) {
		made := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", `{"name":"rotating","scopes":["api.read"]}`).is(t, "201")
		account, token := made.text(t, "account.id"), made.text(t, "token")
		turns(100, func(_ int, one, other *service) {
			old := token
			other.ask(t, "token "+old, aRead, "").is(t, "200")
			token = one.ask(t, "mia@acme", "POST /api/v1/service-accounts/"+account+"/rotate", "").is(t, "200").text(t, "token")
			other.ask(t, "token "+old, aRead, "").is(t, "401 service_token_invalid")
			one.ask(t, "token "+old, aRead, "").is(t, "401 service_token_invalid")
			other.ask(t, "token "+token, aRead, "").is(t, "200")
			one.ask(t, "token "+token, aRead, "").is(t, "200")
		})
		one.recordsOneStaleUse(t, account)
	})

	t.Run("a revoked account", func(t *testing.T) {
		turns(20, func(i int, one, other *service) {
			made := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", fmt.Sprintf(`{"name":"passing-%d","scopes":["api.read"]}`, i)).is(t,
				"201")
			as := "token " + made.text(t, "token")
			other.ask(t, as, aRead, "").is(t, "200")
			one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+made.text(t, "account.id")+"/revoke", "").is(t, "200")
			other.ask(t, as, aRead, "").is(t, "401 service_token_invalid")
			one.ask(t, as, aRead, "").is(t, "401 service_token_invalid")
		})
	})

	t.Run("a demoted Maintainer", func(t *testing.T) {
		maintainer, leo := "PATCH /api/v1/members/"+s.id(t, "member max@acme"), "PATCH /api/v1/members/"+s.id(t, "member leo@acme")
		turns(20, func(i int, one, other *service) {
			tick := fmt.Sprintf(`{"canApproveLoops":%t}`, i%2 == 0)
			other.ask(t, "max@acme", leo, tick).is(t, "200")
			one.ask(t, "ada@acme", maintainer, `{"role":"Viewer"}`).is(t, "200")
			other.ask(t, "max@acme", leo, tick).is(t, "403 role_required")
			one.ask(t, "max@acme", leo, tick).is(t, "403 role_required")
			one.ask(t, "ada@acme", maintainer, `{"role":"Maintainer"}`).is(t, "200")
		})
	})

	t.Run("a demoted Owner", func(t *testing.T) {
		ben := "PATCH /api/v1/members/" + s.id(t, "member ben@acme")
		turns(10, func(i int, one, other *service) {
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
		turns(len(people), func(i int, one, other *service) {
			as := people[i] + "@acme"
			other.ask(t, as, aRead, "").is(t, "200")
			one.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member "+as), "").is(t, "204")
			other.ask(t, as, aRead, "").is(t, "404 tenant_not_found")
			one.ask(t, as, aRead, "").is(t, "404 tenant_not_found")
			other.ask(t, people[i], aRead, "").is(t, "200") // at home
		})
	})

	t.Run("a session", func(t *testing.T) {
		turns(2, func(_ int, one, other *service) {
			cookie := "Cookie: " + cookieName + "=" + one.signIn(t, "ada")
			other.ask(t, "nobody", aRead, "", cookie).is(t, "200")
			one.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
			other.ask(t, "nobody", aRead, "", cookie).is(t, "401 unauthenticated")
		})
	})

	t.Run("one's own writes are read", func(t *testing.T) {
		turns(10, func(i int, one, other *service) {
			a := one.ask(t, "ada@acme", "PATCH /api/v1/workspace", fmt.Sprintf(`{"name":"Acme again %d"}`, i)).is(t, "200")
			position := a.header.Get("X-Svc-Position")
			log := other.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "X-Svc-Min-Position: "+position).is(t, "200")
			require.Equal(t, position, fmt.Sprint(log.at(t, "items.0.seq")))
			require.Equal(t, fmt.Sprintf("Acme again %d", i), log.text(t, "items.0.changes.0.to"))
		})
	})
}

// recordsOneStaleUse waits for the record of a use of an old token. There is
// one, however many uses there were: both services keep to one an hour.
func (v *service) recordsOneStaleUse(t *testing.T, account string) {
	t.Helper()
	eventually(t, func() bool {
		n := len(rows[string](t, v, `select id::text from events where stream = $1 and kind = 'service_account.stale_token_used'`, account))
		require.LessOrEqual(t, n, 1)
		return n == 1
	})
}
