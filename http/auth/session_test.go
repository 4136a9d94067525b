package auth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
)

const moment = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`

func TestGetSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	a := s.do(call{path: "/get-session", cookie: cookie})
	require.Empty(t, a.Cookies(), "nothing about it is new")
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	require.Equal(t, "no-cache", a.Header.Get("Pragma"))

	body := s.session(cookie)
	require.Len(t, body, 2)
	session, user := body["session"], body["user"]
	for _, c := range []struct {
		values map[string]any
		names  []string
	}{
		{session, []string{"expiresAt", "createdAt", "updatedAt"}},
		{user, []string{"createdAt", "updatedAt"}},
	} {
		for _, name := range c.names {
			require.Regexp(t, moment, c.values[name], name)
			delete(c.values, name)
		}
	}
	require.Regexp(t, "^[0-9a-f-]{36}$", session["id"])
	require.Equal(t, map[string]any{
		"id": session["id"], "token": session["id"], "userId": s.person.String(),
		"ipAddress": "127.0.0.1", "userAgent": "Firefox", "activeOrganizationId": s.home.String(),
	}, session)
	require.Equal(t, map[string]any{
		"id": s.person.String(), "name": "Zoë Brandt", "email": email, "emailVerified": true, "image": nil,
	}, user)
}

func TestSessionLastsSevenDays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	session := s.session(s.signIn())["session"]
	created, err := time.Parse(time.RFC3339, session["createdAt"].(string))
	require.NoError(t, err)
	expires, err := time.Parse(time.RFC3339, session["expiresAt"].(string))
	require.NoError(t, err)
	require.Equal(t, 7*24*time.Hour, expires.Sub(created))
}

func TestGetSessionWithoutSessionIsNull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.do(call{path: "/get-session"})
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Equal(t, "null\n", a.text)
	require.Empty(t, a.Cookies())

	cookie := s.signIn()
	for name, value := range map[string]string{
		"nothing":              "",
		"a word":               "signed-in",
		"no signature":         strings.SplitN(cookie.Value, ".", 2)[0],
		"a tampered one":       "A" + cookie.Value,
		"an escape that isn't": "%zz",
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(call{path: "/get-session", cookie: &http.Cookie{Name: cookie.Name, Value: value}})
			require.Equal(t, http.StatusOK, a.StatusCode)
			require.Equal(t, "null\n", a.text)
			requireCookieCleared(t, a)
		})
	}
}

// requireCookieCleared checks that an answer takes the session's cookie from the browser.
func requireCookieCleared(t *testing.T, a answer) {
	t.Helper()
	require.Equal(t, "better-auth.session_token=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax", a.cookie().Raw)
}

func TestSignOutEndsTheSessionOnTheServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie, other := s.signIn(), s.signIn()
	a := s.do(call{path: "/sign-out", body: "{}", cookie: cookie})
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.JSONEq(t, `{"success":true}`, a.text)
	requireCookieCleared(t, a)

	require.Nil(t, s.session(cookie), "the old cookie is worth nothing")
	require.NotNil(t, s.session(other), "another browser stays signed in")
}

func TestSignOutAlwaysSucceeds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	for name, c := range map[string]call{
		"without a cookie": {method: http.MethodPost},
		"with a word":      {method: http.MethodPost, cookie: &http.Cookie{Name: cookie.Name, Value: "x"}},
		"once more":        {method: http.MethodPost, cookie: cookie},
		"and again":        {method: http.MethodPost, cookie: cookie},
	} {
		c.path = "/sign-out"
		a := s.do(c)
		require.Equal(t, http.StatusOK, a.StatusCode, name)
		require.JSONEq(t, `{"success":true}`, a.text, name)
	}
	require.Nil(t, s.session(cookie))
}

func TestListSessionsNeedsRecentSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	s.advance(24*time.Hour - time.Second)
	require.Equal(t, "200 OK", s.do(call{path: "/list-sessions", cookie: cookie}).Status)
	s.advance(time.Second)
	a := s.do(call{path: "/list-sessions", cookie: cookie})
	require.Equal(t, 403, a.StatusCode)
	require.Contains(t, a.text, `"SESSION_NOT_FRESH"`)
}

func TestSessionInUseIsExtended(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	s.advance(25 * time.Hour)
	a := s.do(call{path: "/get-session", cookie: cookie})
	require.Equal(t, cookie.Raw, a.cookie().Raw, "the cookie is set again")
	s.advance(6*24*time.Hour + 23*time.Hour)
	require.NotNil(t, s.session(cookie))
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	s.advance(7*24*time.Hour + time.Second)
	a := s.do(call{path: "/get-session", cookie: cookie})
	require.Equal(t, "null\n", a.text)
	requireCookieCleared(t, a)
}

// Without rememberMe the cookie ends with the browser, even after the session is extended.
func TestSessionCookieWithoutRememberMe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.do(call{path: "/sign-in/email", body: `{"email":"` + email + `","password":"` + password + `","rememberMe":false}`})
	cookies := a.Cookies()
	require.Len(t, cookies, 2)
	require.Equal(t, "better-auth.dont_remember=true; Path=/; HttpOnly; SameSite=Lax", cookies[0].Raw)
	require.Equal(t, "better-auth.session_token="+cookies[1].Value+"; Path=/; HttpOnly; SameSite=Lax", cookies[1].Raw)

	s.advance(25 * time.Hour)
	forget := map[string]string{"Cookie": cookies[0].Name + "=true; " + cookies[1].Name + "=" + cookies[1].Value}
	require.Equal(t, cookies, s.do(call{path: "/get-session", header: forget}).Cookies())
	for _, taken := range s.do(call{path: "/sign-out", body: "{}", header: forget}).Cookies() {
		require.Negative(t, taken.MaxAge)
	}
}

// Clients that cache the session in their own cookie wait for this one.
func TestSetActiveSetsCookieAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	choose := func(headers map[string]string) []*http.Cookie {
		var bodies = []string{`{"organizationId":null}`, `{"organizationSlug":"zoe"}`, `{"organizationId":"` + s.home.String() + `"}`}
		var last []*http.Cookie
		for _, body := range bodies {
			a := s.do(call{path: "/organization/set-active", body: body, header: headers})
			require.Equal(t, http.StatusOK, a.StatusCode, a.text)
			last = a.Cookies()
			require.Equal(t, cookie.Value, last[len(last)-1].Value)
		}
		return last
	}
	header := cookie.Name + "=" + cookie.Value
	remembered := choose(map[string]string{"Cookie": header})
	require.Len(t, remembered, 1)
	require.Equal(t, cookie.Raw, remembered[0].Raw)

	s.advance(time.Hour)
	require.Equal(t, 7*24*3600-3600, choose(map[string]string{"Cookie": header})[0].MaxAge, "no longer than the session")

	s.advance(25 * time.Hour)
	require.Len(t, choose(map[string]string{"Cookie": header}), 1, "once, also where the session is extended")

	forgotten := choose(map[string]string{"Cookie": header + "; better-auth.dont_remember=true"})
	require.Len(t, forgotten, 2)
	require.Zero(t, forgotten[1].MaxAge, "it ends with the browser as before")

	elsewhere := s.do(call{path: "/organization/set-active", body: `{"organizationId":"` + s.person.String() + `"}`,
		header: map[string]string{"Cookie": header}})
	elsewhere.requireRefused(403, "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION")
}

func TestSessionCookieIsSecureOnHTTPS(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(s *auth.Config) { s.Sessions.Secure = true })
	cookie := s.signIn()
	require.Equal(t, "__Secure-better-auth.session_token="+cookie.Value+"; Path=/; Max-Age=604800; HttpOnly; Secure; SameSite=Lax", cookie.Raw)
	require.NotNil(t, s.session(cookie))
	cookie.Name = "better-auth.session_token"
	require.Nil(t, s.session(cookie), "one that came in the clear is not believed")
}

func TestCrossSiteWritesAreRefused(t *testing.T) {
	t.Parallel()
	const own = "https://svc.example" // behind a proxy that rewrites Host
	s := newSite(t, func(s *auth.Config) { s.Origin = own })
	cookie := s.signIn()
	for name, header := range map[string]map[string]string{
		"another site, by a browser of today":     {"Sec-Fetch-Site": "cross-site"},
		"a sister site":                           {"Sec-Fetch-Site": "same-site"},
		"another site, by a browser of yesterday": {"Origin": "https://evil.example"},
		"another port":                            {"Origin": "http://127.0.0.1:1"},
		"a page without an origin":                {"Origin": "null"},
		"one that names our origin, but is not":   {"Origin": own, "Sec-Fetch-Site": "cross-site"},
		"our name by HTTP":                        {"Origin": "http://svc.example"},
	} {
		t.Run(name, func(t *testing.T) {
			s.do(call{path: "/sign-out", body: "{}", cookie: cookie, header: header}).requireRefused(403, "cross_origin_refused")
			s.do(call{path: "/sign-in/email", body: signInBody(email, password), header: header}).requireRefused(403, "cross_origin_refused")
			require.NotNil(t, s.session(cookie), "who is signed in stays so")
			a := s.do(call{path: "/get-session", cookie: cookie, header: header})
			require.Equal(t, http.StatusOK, a.StatusCode, "to read changes nothing")
		})
	}
	for _, origin := range []string{s.url, own} {
		a := s.do(call{path: "/organization/set-active", body: `{"organizationId":null}`, cookie: cookie,
			header: map[string]string{"Origin": origin}})
		require.Equal(t, http.StatusOK, a.StatusCode, a.text)
	}
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.JSONEq(t, `{"ok":true}`, s.do(call{path: "/ok"}).text)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/", 404, "NOT_FOUND"},
		{"GET", "/ok/", 404, "NOT_FOUND"},
		{"GET", "/OK", 404, "NOT_FOUND"},
		{"OPTIONS", "/ok", 404, "NOT_FOUND"},
		{"GET", "/sign-out", 404, "NOT_FOUND"},
		{"GET", "/sign-in/email", 404, "NOT_FOUND"},
		{"POST", "/sign-up/email", 400, "EMAIL_PASSWORD_SIGN_UP_DISABLED"},
		{"POST", "/get-session", 405, "METHOD_NOT_ALLOWED_DEFER_SESSION_REQUIRED"},
		{"GET", "/get-session?x=%00", 422, "validation_failed"},
	} {
		s.do(call{method: c.method, path: c.path}).requireRefused(c.status, c.code)
	}
}

// The session's token is only in the cookie; neither it nor a password is logged.
func TestSessionSecretsAreNotLeaked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	s.session(cookie)
	s.do(call{path: "/sign-in/email", body: signInBody(email, "wrong "+password)})
	s.do(call{path: "/sign-in/email", body: `{"password":"` + password + `"`})
	s.config.Sessions.DB.Close() // from here on everything goes wrong
	for _, c := range []call{
		{path: "/sign-in/email", body: signInBody(email, password)},
		{path: "/get-session", cookie: cookie},
		{path: "/sign-out", body: "{}", cookie: cookie},
	} {
		a := s.do(c)
		require.GreaterOrEqual(t, a.StatusCode, 500)
		require.NotContains(t, a.text, "closed pool")
		require.Empty(t, a.Cookies())
	}

	value, err := url.PathUnescape(cookie.Value)
	require.NoError(t, err)
	token, signature, _ := strings.Cut(value, ".")
	require.Contains(t, s.log.String(), "closed pool", "the log says why")
	require.Len(t, s.responses, 7)
	for _, heard := range s.responses {
		require.NotContains(t, heard, token)
		require.NotContains(t, heard, signature)
		require.NotContains(t, heard, password)
	}
	require.NotContains(t, s.log.String(), token)
	require.NotContains(t, s.log.String(), signature)
	require.NotContains(t, s.log.String(), password)
}
