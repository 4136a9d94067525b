package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// testLookAlikes shows that addresses which only look alike lead to different
// people: not to Mia, and not to somebody else's invitation.
func testLookAlikes(t *testing.T, s *site) {
	t.Run("at the code host", func(t *testing.T) {
		v := s.serve(t, s.clone(t))
		for _, address := range []string{"mİa@acme.example", "miа@acme.example", "pat@gİtmail.example", "\u212Aim@acme.example"} {
			_, where := v.beginSignIn(t)
			form := url.Values{"new": {"1"}, "name": {"Newcomer"}, "email": {address}, "verified": {"1"}}
			res, err := v.client.PostForm(where.String(), form)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, address)
		}
	})

	t.Run("a name that turns text round", func(t *testing.T) {
		v := s.serve(t, s.clone(t))
		cookie, where := v.beginSignIn(t)
		form := url.Values{"new": {"1"}, "name": {"\u200fNew\u202e  comer\u2066"}, "email": {"newcomer@gitmail.example"}, "verified": {"1"}}
		res, err := v.client.PostForm(where.String(), form)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		back, err := res.Location()
		require.NoError(t, err)
		a := v.ask(t, "nobody", "GET "+back.RequestURI(), "", "Cookie: "+cookie).is(t, "302")
		require.Equal(t, "/", a.header.Get("Location"))
		session := "Cookie: " + sessionOf(a)
		require.Equal(t, "New comer", v.ask(t, "nobody", "GET /api/auth/get-session", "", session).text(t, "user.name"))
		require.Equal(t, "New comer's workspace", v.ask(t, "nobody", "GET /api/v1/workspace", "", session).text(t, "name"))
	})

	h := newForge(t)
	v := s.serve(t, s.clone(t), "SVC_OAUTH_URL="+h.URL)
	people := rows[int](t, v, `select count(*)::int from users`)[0]
	invite := func(email, role string) string {
		body := fmt.Sprintf(`{"email":%q,"role":%q}`, email, role)
		return v.ask(t, "ada@acme", "POST /api/v1/invitations", body).is(t, "201").text(t, "id")
	}
	letter, foreign := invite("pat@gitmail.example", "Owner"), invite("pat@bücher.example", "Maintainer")

	t.Run("an address that is none signs nobody in", func(t *testing.T) {
		for _, address := range []string{"mİa@acme.example", "mia@ａcme.example", "mia@acme。example", "mi\u200ba@acme.example",
			"pat@gİtmail.example"} {
			a := h.signIn(t, v, address)
			require.Contains(t, a.header.Get("Location"), "/api/auth/error?error=email_not_found", address)
			require.Empty(t, sessionOf(a), address)
		}
		require.Equal(t, people, rows[int](t, v, `select count(*)::int from users`)[0])
	})

	t.Run("one of several that is none is not theirs", func(t *testing.T) {
		a := h.signIn(t, v, "mİa@acme.example", "pat@gİtmail.example", "pat@bu\u0308cher.example", "newcomer@gitmail.example")
		session := sessionOf(a)
		require.NotEmpty(t, session)
		ask := func(line, body string) answer { return v.ask(t, "nobody", line, body, "Cookie: "+session) }
		require.Equal(t, "newcomer@gitmail.example", ask("GET /api/auth/get-session", "").text(t, "user.email"))
		require.Equal(t, []string{"newcomer@gitmail.example"},
			rows[string](t, v, `select unnest(emails) from users where email = 'newcomer@gitmail.example'`))
		require.JSONEq(t, `[]`, ask("GET /api/auth/organization/list-user-invitations", "").body)
		for _, id := range []string{letter, foreign} {
			ask("POST /api/auth/organization/accept-invitation", `{"invitationId":"`+id+`"}`).is(t,
				"403 YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION")
		}
		ask("GET /api/v1/members", "").is(t, "200")
		v.ask(t, "nobody", "GET /api/v1/members", "", "Cookie: "+session, "X-Svc-Tenant: acme").is(t, "404 tenant_not_found")
	})

	t.Run("the same address written otherwise is", func(t *testing.T) {
		for id, address := range map[string]string{letter: "Pat@GitMail.example", foreign: "pat@XN--bcher-kva.example"} {
			session := sessionOf(h.signIn(t, v, address))
			require.NotEmpty(t, session, address)
			v.ask(t, "nobody", "POST /api/auth/organization/accept-invitation", `{"invitationId":"`+id+`"}`, "Cookie: "+session).is(t, "200")
		}
	})

	t.Run("nor is it invited", func(t *testing.T) {
		for _, address := range []string{"mİa@acme.example", "miа@acme.example", "pat@gİtmail.example", "pat@\u212Araken.example",
			"pat@acme。example"} {
			body := fmt.Sprintf(`{"email":%q}`, address)
			v.requireBad(t, bad{as: "ada@acme", line: "POST /api/v1/invitations", body: body, want: "422 validation_failed email"})
			body = fmt.Sprintf(`{"email":%q,"role":"viewer"}`, address)
			v.ask(t, "ada@acme", "POST /api/auth/organization/invite-member", body).is(t, "400 INVALID_EMAIL")
		}
	})
}

// A forge is a code host that says whatever a test has it say.
type forge struct {
	*httptest.Server

	mu     sync.Mutex
	people [][]string // their addresses, all verified
}

func newForge(t *testing.T) *forge {
	f := &forge{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP plays GitHub Enterprise. The code of a sign-in is also its token, and
// the number of the person.
func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer person-%d", &n) // a token's request has none
	var out any
	switch r.URL.Path {
	case "/login/oauth/access_token":
		out = map[string]string{"access_token": r.PostFormValue("code"), "token_type": "bearer", "scope": "read:user,user:email"}
	case "/api/v3/user":
		out = map[string]any{"id": 1000 + n, "login": fmt.Sprintf("person-%d", n)}
	case "/api/v3/user/emails":
		list := []map[string]any{}
		for i, address := range f.people[n] {
			list = append(list, map[string]any{"email": address, "primary": i == 0, "verified": true})
		}
		out = list
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // if it fails the caller has gone
}

// signIn has somebody new sign in, and returns what their browser is answered.
func (f *forge) signIn(t *testing.T, v *service, emails ...string) answer {
	t.Helper()
	f.mu.Lock()
	code := fmt.Sprintf("person-%d", len(f.people))
	f.people = append(f.people, emails)
	f.mu.Unlock()
	cookie, where := v.beginSignIn(t)
	back := url.Values{"code": {code}, "state": {where.Query().Get("state")}}
	return v.ask(t, "nobody", "GET /api/auth/callback/github?"+back.Encode(), "", "Cookie: "+cookie).is(t, "302")
}

// beginSignIn returns the cookie of a sign-in and where it leads.
func (v *service) beginSignIn(t *testing.T) (cookie string, where *url.URL) {
	t.Helper()
	a := v.ask(t, "nobody", "POST /api/auth/sign-in/social", `{"provider":"github"}`).is(t, "200")
	where, err := url.Parse(a.text(t, "url"))
	require.NoError(t, err)
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie, where
}

// sessionOf returns the session's cookie that an answer sets, "" if none.
func sessionOf(a answer) string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}
