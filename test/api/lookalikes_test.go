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

// testLookAlikeAddresses shows that an email address that only looks like another one neither signs its
// owner in as that person nor accepts that person's invitations.
func testLookAlikeAddresses(t *testing.T, s *fixture) {
	t.Run("the code host refuses them", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t))
		for _, address := range []string{"mİa@acme.example", "miа@acme.example", "pat@gİtmail.example", "\u212Aim@acme.example"} {
			_, target := v.beginSignIn(t)
			form := url.Values{"new": {"1"}, "name": {"Newcomer"}, "email": {address}, "verified": {"1"}}
			res, err := v.client.PostForm(target.String(), form)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, address)
		}
	})

	t.Run("bidirectional controls are removed from names", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t))
		cookie, target := v.beginSignIn(t)
		form := url.Values{"new": {"1"}, "name": {"\u200fNew\u202e  comer\u2066"}, "email": {"newcomer@gitmail.example"}, "verified": {"1"}}
		res, err := v.client.PostForm(target.String(), form)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		back, err := res.Location()
		require.NoError(t, err)
		a := v.ask(t, "nobody", "GET "+back.RequestURI(), "", "Cookie: "+cookie).is(t, "302")
		require.Equal(t, "/", a.header.Get("Location"))
		session := "Cookie: " + sessionCookie(a)
		require.Equal(t, "New comer", v.ask(t, "nobody", "GET /api/auth/get-session", "", session).text(t, "user.name"))
		require.Equal(t, "New comer's workspace", v.ask(t, "nobody", "GET /api/v1/workspace", "", session).text(t, "name"))
	})

	host := newFakeCodeHost(t)
	v := s.serve(t, s.cloneDatabase(t), "SVC_OAUTH_URL="+host.URL)
	people := queryRows[int](t, v, `select count(*)::int from users`)[0]
	invite := func(email, role string) string {
		body := fmt.Sprintf(`{"email":%q,"role":%q}`, email, role)
		return v.ask(t, "ada@acme", "POST /api/v1/invitations", body).is(t, "201").text(t, "id")
	}
	asciiInvitation, idnInvitation := invite("pat@gitmail.example", "Owner"), invite("pat@bücher.example", "Maintainer")

	t.Run("an invalid address signs nobody in", func(t *testing.T) {
		for _, address := range []string{"mİa@acme.example", "mia@ａcme.example", "mia@acme。example", "mi\u200ba@acme.example",
			"pat@gİtmail.example"} {
			a := host.signIn(t, v, address)
			require.Contains(t, a.header.Get("Location"), "/api/auth/error?error=email_not_found", address)
			require.Empty(t, sessionCookie(a), address)
		}
		require.Equal(t, people, queryRows[int](t, v, `select count(*)::int from users`)[0])
	})

	t.Run("an invalid address among several is ignored", func(t *testing.T) {
		a := host.signIn(t, v, "mİa@acme.example", "pat@gİtmail.example", "pat@bu\u0308cher.example", "newcomer@gitmail.example")
		session := sessionCookie(a)
		require.NotEmpty(t, session)
		ask := func(line, body string) answer { return v.ask(t, "nobody", line, body, "Cookie: "+session) }
		require.Equal(t, "newcomer@gitmail.example", ask("GET /api/auth/get-session", "").text(t, "user.email"))
		require.Equal(t, []string{"newcomer@gitmail.example"},
			queryRows[string](t, v, `select unnest(emails) from users where email = 'newcomer@gitmail.example'`))
		require.JSONEq(t, `[]`, ask("GET /api/auth/organization/list-user-invitations", "").body)
		for _, id := range []string{asciiInvitation, idnInvitation} {
			ask("POST /api/auth/organization/accept-invitation", `{"invitationId":"`+id+`"}`).is(t,
				"403 YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION")
		}
		ask("GET /api/v1/members", "").is(t, "200")
		v.ask(t, "nobody", "GET /api/v1/members", "", "Cookie: "+session, "X-Svc-Tenant: acme").is(t, "404 tenant_not_found")
	})

	t.Run("another spelling of the same address is accepted", func(t *testing.T) {
		for id, address := range map[string]string{asciiInvitation: "Pat@GitMail.example", idnInvitation: "pat@XN--bcher-kva.example"} {
			session := sessionCookie(host.signIn(t, v, address))
			require.NotEmpty(t, session, address)
			v.ask(t, "nobody", "POST /api/auth/organization/accept-invitation", `{"invitationId":"`+id+`"}`, "Cookie: "+session).is(t, "200")
		}
	})

	t.Run("an invalid address cannot be invited", func(t *testing.T) {
		for _, address := range []string{"mİa@acme.example", "miа@acme.example", "pat@gİtmail.example", "pat@\u212Araken.example",
			"pat@acme。example"} {
			body := fmt.Sprintf(`{"email":%q}`, address)
			v.requireRefused(t, bad{as: "ada@acme", line: "POST /api/v1/invitations", body: body, want: "422 validation_failed email"})
			body = fmt.Sprintf(`{"email":%q,"role":"viewer"}`, address)
			v.ask(t, "ada@acme", "POST /api/auth/organization/invite-member", body).is(t, "400 INVALID_EMAIL")
		}
	})
}

// A fakeCodeHost is a code host whose people have any addresses that a test gives them.
type fakeCodeHost struct {
	*httptest.Server

	mu     sync.Mutex
	people [][]string // email addresses of each person, all verified
}

func newFakeCodeHost(t *testing.T) *fakeCodeHost {
	f := &fakeCodeHost{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// ServeHTTP implements the routes of GitHub Enterprise that sign-in uses. The authorization code, such as
// person-0, contains the index in people and is also the access token.
func (f *fakeCodeHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer person-%d", &n) // a request for a token has no such header
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
	_ = json.NewEncoder(w).Encode(out) // an error means that the client has gone
}

// signIn signs a new person with these addresses in, and returns the answer to the callback.
func (f *fakeCodeHost) signIn(t *testing.T, v *service, emails ...string) answer {
	t.Helper()
	f.mu.Lock()
	code := fmt.Sprintf("person-%d", len(f.people))
	f.people = append(f.people, emails)
	f.mu.Unlock()
	cookie, target := v.beginSignIn(t)
	back := url.Values{"code": {code}, "state": {target.Query().Get("state")}}
	return v.ask(t, "nobody", "GET /api/auth/callback/github?"+back.Encode(), "", "Cookie: "+cookie).is(t, "302")
}

// beginSignIn starts a sign-in, and returns its state cookie and the code host's URL.
func (v *service) beginSignIn(t *testing.T) (cookie string, target *url.URL) {
	t.Helper()
	a := v.ask(t, "nobody", "POST /api/auth/sign-in/social", `{"provider":"github"}`).is(t, "200")
	target, err := url.Parse(a.text(t, "url"))
	require.NoError(t, err)
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie, target
}

// sessionCookie returns name=value of the session cookie that an answer sets, or "".
func sessionCookie(a answer) string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}
