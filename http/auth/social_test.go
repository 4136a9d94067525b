package auth_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/dev/codehost"
	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/events"
	"svc/http/auth"
	"svc/vault"
)

// newCodeHost starts the development code host with a registered callback, and returns its URL.
func newCodeHost(t *testing.T, callback string) string {
	t.Helper()
	handler, err := codehost.New(t.Context(), codehost.Config{
		Clients: []oauth.Client{{ID: clientID, Secret: clientSecret, Callback: callback}},
		People: []people.Person{{ID: 4711, Login: "ada", Name: "Ada Lind", Emails: []people.Email{
			{Address: "ada@home.example", Verified: true}, {Address: "ada@acme.example", Primary: true, Verified: true},
			{Address: "boss@acme.example"},
		}}},
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// answerAt submits a code host's form, and returns the redirect.
func answerAt(t *testing.T, form *url.URL, fields url.Values) *url.URL {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, form.String(), strings.NewReader(fields.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w, err := (&http.Client{CheckRedirect: stay}).Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	require.Equal(t, http.StatusFound, w.StatusCode)
	where, err := w.Location()
	require.NoError(t, err)
	return where
}

func TestSignInThroughACodeHost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ provider, scopes, api, slash string }{
		"GitHub":             {"github", "read:user user:email", "", ""},
		"GitHub Enterprise":  {"github", "read:user user:email", "/api/v3", ""},
		"Gitea":              {"gitea", "read:user", "/api/v1", ""},
		"Forgejo":            {"forgejo", "read:user", "/api/v1", ""},
		"addresses with a /": {"gitea", "read:user", "/api/v1/", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var web string
			s := newSite(t, func(s *auth.Config) {
				web = newCodeHost(t, s.Origin+"/api/auth/callback/"+c.provider)
				s.Providers = map[string]*auth.Provider{
					c.provider: auth.NewProvider(c.provider, clientID, clientSecret, web+c.slash, web+c.api, s.Origin),
				}
			})
			before := s.tally()
			b := s.browser()

			asked := b.begin(c.provider, "callbackURL", "/inbox?tab=2", "newUserCallbackURL", "/welcome")
			require.Equal(t, web+"/login/oauth/authorize", asked.Scheme+"://"+asked.Host+asked.Path)
			query := asked.Query()
			state, challenge := query.Get("state"), query.Get("code_challenge")
			require.Len(t, state, 43, "32 random bytes")
			require.Len(t, challenge, 43)
			require.Equal(t, url.Values{
				"response_type": {"code"}, "client_id": {clientID}, "state": {state}, "scope": {c.scopes},
				"redirect_uri":   {s.url + "/api/auth/callback/" + c.provider},
				"code_challenge": {challenge}, "code_challenge_method": {"S256"},
			}, query)
			require.Nil(t, b.session(), "not signed in yet")
			require.Equal(t, before, s.tally())

			back := answerAt(t, asked, url.Values{"login": {"ada"}})
			twins := map[string]string{"Cookie": stateCookie + "=another; better-auth.session_token=another"} // for a parent domain
			b.do(call{path: "/callback/" + c.provider + "?" + back.RawQuery, header: twins}).requireSentTo("/welcome")
			require.Contains(t, b.do(call{path: "/get-session", header: twins}).text, "Ada Lind")
			require.NotContains(t, b.cookies(), stateCookie)
			user := b.session()["user"]
			require.Equal(t, "Ada Lind", user["name"])
			require.Equal(t, "ada@acme.example", user["email"])
			require.Equal(t, true, user["emailVerified"])
			require.Equal(t, web+"/avatars/ada", user["image"])

			workspaces := b.list("/organization/list")
			require.Len(t, workspaces, 1)
			require.Equal(t, "ada", workspaces[0]["slug"])
			require.Equal(t, "Ada Lind's workspace", workspaces[0]["name"])
			require.Equal(t, workspaces[0]["id"], b.session()["session"]["activeOrganizationId"])
			require.JSONEq(t, `{"role":"owner"}`, b.do(call{path: "/organization/get-active-member-role"}).text)

			accounts := b.list("/list-accounts")
			require.Len(t, accounts, 1)
			linked := s.now().UTC().Format("2006-01-02T15:04:05.000Z")
			require.Equal(t, map[string]any{
				"id": c.provider + "/" + web + "/4711", "accountId": "4711", "providerId": c.provider, "userId": user["id"],
				"createdAt": linked, "updatedAt": linked, "scopes": accounts[0]["scopes"],
			}, accounts[0])
			require.Equal(t, fmt.Sprint(strings.Fields(c.scopes)), fmt.Sprint(accounts[0]["scopes"]))
			requireHarmless(t, s, web, c.provider, user["id"])

			again := s.browser()
			back = answerAt(t, again.begin(c.provider, "callbackURL", "/inbox?tab=2", "newUserCallbackURL", "/welcome"),
				url.Values{"login": {"ada"}})
			again.back(c.provider, back.Query()).requireSentTo("/inbox?tab=2")
			require.Equal(t, user, again.session()["user"], "the same person")
			require.NotEqual(t, b.session()["session"]["id"], again.session()["session"]["id"])
			require.Equal(t, before.people+1, s.count("users"))
			require.Equal(t, before.workspaces+1, s.count("workspaces"))
		})
	}
}

// requireHarmless checks that the stored token cannot create a repository.
func requireHarmless(t *testing.T, s *site, web, provider string, user any) {
	t.Helper()
	id, err := events.ParseID(fmt.Sprint(user))
	require.NoError(t, err)
	token, ok, err := s.config.Tokens.(vault.Tokens).Get(t.Context(), id, provider)
	require.NoError(t, err)
	require.True(t, ok)
	if provider == "github" { // the code host has no repositories under GitHub's interface
		return
	}
	for path, status := range map[string]int{"GET /api/v1/user": http.StatusOK, "POST /api/v1/user/repos": http.StatusForbidden} {
		method, path, _ := strings.Cut(path, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, web+path, strings.NewReader(`{"name":"theirs"}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
		w, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, w.Body.Close())
		require.Equal(t, status, w.StatusCode, path)
	}
}

func TestSignInSocial(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for name, c := range map[string]struct {
		body     string
		location bool
	}{
		"by leading the browser there":   {`{"provider":"github"}`, true},
		"by saying where the browser is": {`{"provider":"github","disableRedirect":true}`, false},
		"whatever else the client sends": {`{"provider":"github","scopes":["repo"],"requestSignUp":true,"additionalData":{"a":1}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(call{path: "/sign-in/social", body: c.body})
			require.Equal(t, http.StatusOK, a.StatusCode, a.text)
			var body struct {
				URL      string `json:"url"`
				Redirect *bool  `json:"redirect"`
			}
			decode(t, a.text, &body)
			require.Equal(t, c.location, *body.Redirect)
			want := ""
			if c.location {
				want = body.URL
			}
			require.Equal(t, want, a.Header.Get("Location"))
			require.True(t, strings.HasPrefix(body.URL, h.URL+"/login/oauth/authorize?"))
			require.NotContains(t, body.URL, "repo", "the scopes are ours to choose")
			require.Equal(t, "better-auth.state="+a.cookie().Value+"; Path=/; Max-Age=600; HttpOnly; SameSite=Lax", a.cookie().Raw)
		})
	}
}

func TestSignInSocialRefusals(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"without a provider":           {`{}`, 400, "VALIDATION_ERROR"},
		"at a number":                  {`{"provider":7}`, 400, "VALIDATION_ERROR"},
		"at a provider there is not":   {`{"provider":"gitlab"}`, 404, "PROVIDER_NOT_FOUND"},
		"at a provider in capitals":    {`{"provider":"GitHub"}`, 404, "PROVIDER_NOT_FOUND"},
		"with half of a body":          {`{"provider":"github"`, 400, "BAD_REQUEST"},
		"with a callback that is none": {`{"provider":"github","callbackURL":7}`, 400, "VALIDATION_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			s.do(call{path: "/sign-in/social", body: c.body}).requireRefused(c.status, c.code)
		})
	}
	require.Zero(t, s.count("oauth_states"))
}

// Upper case and the default port do not make an address foreign.
func TestOwnOriginVariants(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h), func(s *auth.Config) { s.Origin = "https://svc.example.com" })
	for address, status := range map[string]int{
		"https://svc.example.com/inbox":      200,
		"HTTPS://Svc.Example.com:443/inbox":  200,
		"https://svc.example.com:444/inbox":  403,
		"http://svc.example.com/inbox":       403,
		"https://svc.example.com.evil/inbox": 403,
		"https://\u017fvc.example.com/inbox": 403,
	} {
		a := s.do(call{path: "/sign-in/social", body: `{"provider":"github","callbackURL":"` + address + `"}`})
		require.Equal(t, status, a.StatusCode, address)
	}
}

func TestSignInSocialIsLimited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withLimit(t, 1), withProvider(h))
	b := s.browser()
	b.begin("github")
	s.do(call{path: "/sign-in/social", body: `{"provider":"github"}`}).requireRefused(429, "rate_limited")
}

func TestStateCookieIsSecureOnHTTPS(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h), func(s *auth.Config) { s.Sessions.Secure = true })
	cookie := s.do(call{path: "/sign-in/social", body: `{"provider":"github"}`}).cookie()
	require.Equal(t, "__Secure-better-auth.state="+cookie.Value+"; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax", cookie.Raw)
}

// A provider may post its answer, or the part of it that is not in the query. The cross-site POST has no
// cookie, but the GET to which it redirects has.
func TestCallbackByPost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for _, inAddress := range [][]string{nil, {"state"}, {"state", "code"}} {
		b := s.browser()
		query := h.approve(b.begin("github", "callbackURL", "/inbox"))
		address, body := url.Values{}, maps.Clone(query)
		for _, name := range inAddress {
			address.Set(name, query.Get(name))
			body.Set(name, "another")
		}
		a := s.browser().do(call{
			method: http.MethodPost, path: "/callback/github?" + address.Encode(), media: "application/x-www-form-urlencoded", body: body.Encode(),
			header: map[string]string{"Origin": h.URL, "Sec-Fetch-Site": "cross-site"},
		})
		require.Equal(t, http.StatusFound, a.StatusCode, a.text)
		require.Equal(t, "/api/auth/callback/github?"+query.Encode(), a.Header.Get("Location"))
		require.Empty(t, a.Cookies())
		b.do(call{path: strings.TrimPrefix(a.Header.Get("Location"), "/api/auth")}).requireSentTo("/inbox")
	}
}

// The text of an error is shown only if it is a code of ours, however short it is.
func TestOtherErrorsAreNotShown(t *testing.T) {
	t.Parallel()
	require.Equal(t, "internal_server_error", auth.PublicCode(io.EOF))
	require.Equal(t, "internal_server_error", auth.PublicCode(fmt.Errorf("read state: %w", io.EOF)))
	require.Equal(t, "email_not_found", auth.PublicCode(fmt.Errorf("sign in: %w", auth.ErrNoEmail)))
}
