package codehost

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/dev/codehost/people"
)

func TestPageShowsApplicationAndScopes(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.People[2].Role = "Viewer" })
	res := s.do(t, "GET", authorizeQuery(change{"scope": "user:email repo"}), "")
	require.Contains(t, res.body, `Pat Public <span class="pill">Viewer</span>`)
	require.Contains(t, res.body, "Workspace wants to know who you are")
	require.Contains(t, res.body, "<li>Read your e-mail addresses</li>\n<li>repo</li>")
	require.Contains(t, res.body, "127.0.0.1:4000")
	require.Contains(t, res.body, "+2<span")
	require.Equal(t, 1, strings.Count(res.body, "not verified"), "eve's only")
	require.NotContains(t, res.body, "<script")
	require.NotContains(t, res.body, clientSecret)
}

func TestPageListsExpectedPersonFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, hint := range []change{{"login": "pat"}, {"login_hint": "PAT@open.example"}} {
		body := s.do(t, "GET", authorizeQuery(hint), "").body
		require.Equal(t, 1, strings.Count(body, ">expected<"))
		require.Less(t, strings.Index(body, `value="pat"`), strings.Index(body, `value="ada"`))
	}
	require.NotContains(t, s.do(t, "GET", authorizeQuery(change{"login": "nobody"}), "").body, ">expected<")
}

func TestPageForbidsScripts(t *testing.T) {
	t.Parallel()
	evil := `"><script>alert(1)</script>`
	s := start(t, func(c *Config) {
		c.Clients[0].Name = evil
		c.People = []people.Person{{Login: "evil", Name: evil}}
	})
	res := s.do(t, "GET", authorizeQuery(change{"state": evil, "login": evil, "more": evil}), "")
	require.Equal(t, http.StatusOK, res.status)
	require.NotContains(t, res.body, "<script")
	policy := res.header.Get("Content-Security-Policy")
	require.True(t, strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; img-src 'self';"), policy)
	require.Contains(t, policy, "form-action 'self' http://127.0.0.1:4000 ")
	require.Equal(t, "DENY", res.header.Get("X-Frame-Options"))
	require.Equal(t, "no-store", res.header.Get("Cache-Control"))
}

func TestOtherPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	require.Contains(t, s.do(t, "GET", "/", "").body, "A code host for development")
	require.Equal(t, "text/css; charset=utf-8", s.do(t, "GET", "/style.css", "").header.Get("Content-Type"))
	require.JSONEq(t, `{"status":"ok"}`, s.do(t, "GET", "/healthz", "").body)
	require.Equal(t, http.StatusNoContent, s.do(t, "GET", "/favicon.ico", "").status)
	require.Equal(t, http.StatusNotFound, s.do(t, "GET", "/nothing", "").status)
	for _, path := range []string{"/acme/web/issues/7", "/acme/web/pull/7", "/acme/web/pull/7/files", "/acme/web/pulls/7",
		"/acme/web/pulls/7/files"} {
		require.Contains(t, s.do(t, "GET", path, "").body, "<h1>acme/web #7</h1>", path)
	}
	require.Equal(t, http.StatusNotFound, s.do(t, "GET", "/acme/web/issues/none", "").status)
	require.NotContains(t, s.do(t, "GET", "/%3Cscript%3E/web/issues/7", "").body, "<script")
}

func TestLogContainsNoSecrets(t *testing.T) {
	t.Parallel()
	s := start(t)
	code := s.code(t, "ada")
	token := s.exchange(t, code)["access_token"]
	s.get(t, "/user", token)
	for range 3 {
		line := <-s.logs
		require.Contains(t, line, "msg=request")
		for _, secret := range []string{code, token, clientSecret, verifier, "s t&te"} {
			require.NotContains(t, line, secret)
		}
	}
}
