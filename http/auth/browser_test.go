package auth_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"github.com/stretchr/testify/require"

	"svc/http/auth"
)

const (
	clientID     = "workspace"
	clientSecret = "the secret of the application"
)

// A browser stores cookies and does not follow redirects.
type browser struct {
	site *site
	http *http.Client
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &browser{s, &http.Client{Jar: jar, CheckRedirect: stay}}
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (b *browser) do(c call) answer {
	b.site.t.Helper()
	return b.site.ask(b.http, c)
}

// begin begins a sign-in at a provider, and returns where the browser is sent.
// More fields of the body may follow in pairs.
func (b *browser) begin(provider string, fields ...string) *url.URL {
	b.site.t.Helper()
	a := b.do(call{path: "/sign-in/social", body: fieldsOf(append(fields, "provider", provider)...)})
	require.Equal(b.site.t, http.StatusOK, a.StatusCode, a.text)
	where, err := url.Parse(a.Header.Get("Location"))
	require.NoError(b.site.t, err)
	return where
}

// fieldsOf returns a JSON object of strings, given in pairs.
func fieldsOf(pairs ...string) string {
	object := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		object[pairs[i]] = pairs[i+1]
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// back requests the callback, as after a redirect by the provider.
func (b *browser) back(provider string, query url.Values) answer {
	b.site.t.Helper()
	return b.do(call{path: "/callback/" + provider + "?" + query.Encode()})
}

// signIn runs a whole sign-in of the provider's current person.
func (b *browser) signIn(h *host, fields ...string) answer {
	b.site.t.Helper()
	return b.back("github", h.approve(b.begin("github", fields...)))
}

// session returns the answer of get-session, nil for null.
func (b *browser) session() map[string]map[string]any {
	b.site.t.Helper()
	a := b.do(call{path: "/get-session"})
	require.Equal(b.site.t, http.StatusOK, a.StatusCode, a.text)
	var body map[string]map[string]any
	require.NoError(b.site.t, json.Unmarshal([]byte(a.text), &body))
	return body
}

// list returns the list that a GET answers.
func (b *browser) list(path string) (list []map[string]any) {
	b.site.t.Helper()
	a := b.do(call{path: path})
	require.Equal(b.site.t, http.StatusOK, a.StatusCode, a.text)
	require.NoError(b.site.t, json.Unmarshal([]byte(a.text), &list), a.text)
	return list
}

// cookies returns the cookies that the browser sends.
func (b *browser) cookies() map[string]string {
	found := map[string]string{}
	for _, c := range b.http.Jar.Cookies(b.url()) {
		found[c.Name] = c.Value
	}
	return found
}

// plant puts a cookie into the browser.
func (b *browser) plant(name, value string) {
	b.http.Jar.SetCookies(b.url(), []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

func (b *browser) url() *url.URL {
	u, err := url.Parse(b.site.url)
	require.NoError(b.site.t, err)
	return u
}

const (
	sessionCookie = "better-auth.session_token"
	stateCookie   = "better-auth.state"
)

// requireSentTo checks that an answer signs the browser in and sends it on.
func (a answer) requireSentTo(where string) {
	a.t.Helper()
	require.Equal(a.t, http.StatusFound, a.StatusCode, a.text)
	require.Equal(a.t, where, a.Header.Get("Location"))
	require.Equal(a.t, "no-store", a.Header.Get("Cache-Control"))
	cookies := a.Cookies()
	require.Len(a.t, cookies, 2)
	require.Equal(a.t, "better-auth.state=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax", cookies[0].Raw)
	require.Equal(a.t, "better-auth.session_token="+cookies[1].Value+"; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax", cookies[1].Raw)
}

// requireSentBack checks that an answer tells the browser at where why it is
// not signed in, and takes the state from it.
func (a answer) requireSentBack(where string, reason url.Values) {
	a.t.Helper()
	require.Equal(a.t, http.StatusFound, a.StatusCode, a.text)
	if strings.HasSuffix(where, "/api/auth/error") {
		reason = maps.Clone(reason)
		reason.Set("request_id", a.Header.Get("X-Request-Id"))
		reason.Set("provider", "github")
	}
	require.Equal(a.t, where+"?"+reason.Encode(), a.Header.Get("Location"))
	require.Equal(a.t, "no-store", a.Header.Get("Cache-Control"))
	require.Len(a.t, a.Cookies(), 1, "no session")
	require.Equal(a.t, stateCookie, a.Cookies()[0].Name)
	require.Negative(a.t, a.Cookies()[0].MaxAge)
}

func reason(code string) url.Values { return url.Values{"error": {code}} }

// errorPage returns the default address for errors.
func (s *site) errorPage() string { return s.url + "/api/auth/error" }

// count counts the rows of a table.
func (s *site) count(table string) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.config.Sessions.DB.QueryRow(s.t.Context(), "select count(*) from "+table).Scan(&n))
	return n
}

// A tally counts the rows that a failed sign-in must not change.
type tally struct{ people, workspaces, events, sessions, tokens int }

func (s *site) tally() tally {
	s.t.Helper()
	return tally{s.count("users"), s.count("workspaces"), s.count("events"), s.count("sessions"), s.count("provider_tokens")}
}

// withProvider gives a site a provider "github" at a host.
func withProvider(h *host) func(*auth.Config) {
	return func(s *auth.Config) {
		s.Providers = map[string]*auth.Provider{"github": auth.NewProvider("github", clientID, clientSecret, h.URL, h.URL, s.Origin)}
	}
}

// errorText returns the error page to which an answer redirects.
func (b *browser) errorText(a answer) string {
	b.site.t.Helper()
	path, ok := strings.CutPrefix(a.Header.Get("Location"), b.site.url+"/api/auth")
	require.True(b.site.t, ok, a.Header.Get("Location"))
	page := b.do(call{path: path})
	require.Equal(b.site.t, http.StatusOK, page.StatusCode)
	return page.text
}

func decode(t require.TestingT, text string, into any) {
	require.NoError(t, json.Unmarshal([]byte(text), into), text)
}
