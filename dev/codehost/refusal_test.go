package codehost

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/limit"
)

type change = map[string]string

func TestAuthorizationErrorsAreRedirected(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]struct {
		change change
		code   string
	}{
		"another path":         {change{"redirect_uri": "http://127.0.0.1:4000/elsewhere"}, "redirect_uri_mismatch"},
		"another site":         {change{"redirect_uri": "https://evil.example/api/auth/callback/github"}, "redirect_uri_mismatch"},
		"no URL":               {change{"redirect_uri": "javascript:alert(1)"}, "redirect_uri_mismatch"},
		"plain PKCE":           {change{"code_challenge_method": "plain"}, "invalid_request"},
		"PKCE without method":  {change{"code_challenge_method": "-"}, "invalid_request"},
		"method without PKCE":  {change{"code_challenge": "-"}, "invalid_request"},
		"a challenge too long": {change{"code_challenge": hash + "x"}, "invalid_request"},
		"implicit flow":        {change{"response_type": "token"}, "unsupported_response_type"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "POST"} {
				to, query := s.do(t, method, authorizeQuery(c.change), "").redirect(t)
				require.Equal(t, callback, to)
				require.Equal(t, c.code, query.Get("error"))
				require.NotEmpty(t, query.Get("error_description"))
				require.Equal(t, "s t&te", query.Get("state"))
				require.Empty(t, query.Get("code"))
			}
		})
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	s := start(t)
	to, query := s.do(t, "POST", authorizeQuery(), "deny=1&login=ada").redirect(t)
	require.Equal(t, callback, to)
	require.Equal(t, "access_denied", query.Get("error"))
	require.Equal(t, "The user has denied your application access.", query.Get("error_description"))
	require.True(t, strings.HasSuffix(query.Get("error_uri"), "#access-denied"))
	require.Equal(t, "s t&te", query.Get("state"))
	require.False(t, query.Has("code"))
}

func TestUnknownApplicationIsNotRedirected(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, id := range []string{"-", "nobody"} {
		for _, method := range []string{"GET", "POST"} {
			res := s.do(t, method, authorizeQuery(change{"client_id": id}), "")
			require.Equal(t, http.StatusNotFound, res.status)
			require.Empty(t, res.header.Get("Location"))
			require.Contains(t, res.body, "No such application")
		}
	}
}

func TestCrossSiteAnswerIsRejected(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, header := range map[string][]string{
		"cross-site":    {"Sec-Fetch-Site", "cross-site"},
		"same-site":     {"Sec-Fetch-Site", "same-site"},
		"other origin":  {"Origin", "http://127.0.0.1:1"},
		"opaque origin": {"Origin", "null"},
	} {
		for _, body := range []string{"login=ada", "deny=1", "new=1&name=N&email=n@n.example"} {
			res := s.do(t, "POST", authorizeQuery(), body, header...)
			require.Equal(t, http.StatusForbidden, res.status, name)
			require.Empty(t, res.header.Get("Location"), name)
		}
	}
	require.NotContains(t, s.do(t, "GET", authorizeQuery(), "").body, "n@n.example")
}

func TestTokenRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]struct {
		asked, change change
		code          string
		kept          bool // the code remains valid
	}{
		"wrong secret":         {nil, change{"client_secret": "guess"}, "incorrect_client_credentials", true},
		"no secret":            {nil, change{"client_secret": "-"}, "incorrect_client_credentials", true},
		"unknown client":       {nil, change{"client_id": "nobody"}, "incorrect_client_credentials", true},
		"other grant":          {nil, change{"grant_type": "password"}, "unsupported_grant_type", true},
		"wrong code":           {nil, change{"code": "guess"}, "bad_verification_code", true},
		"no code":              {nil, change{"code": "-"}, "bad_verification_code", true},
		"another's code":       {nil, change{"client_id": "other", "client_secret": "another secret"}, "bad_verification_code", false},
		"other redirect":       {nil, change{"redirect_uri": callback + "/b"}, "redirect_uri_mismatch", false},
		"wrong verifier":       {nil, change{"code_verifier": strings.Repeat("x", 43)}, "bad_verification_code", false},
		"the hash as verifier": {nil, change{"code_verifier": hash}, "bad_verification_code", false},
		"no verifier":          {nil, change{"code_verifier": "-"}, "bad_verification_code", false},
		"PKCE taken out": {
			change{"code_challenge": "-", "code_challenge_method": "-"}, nil, "bad_verification_code", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code := s.code(t, "ada", c.asked)
			got := s.exchange(t, code, c.change)
			require.Equal(t, c.code, got["error"])
			require.NotEmpty(t, got["error_description"])
			require.NotContains(t, got, "access_token")
			if again := s.exchange(t, code); c.kept {
				require.NotEmpty(t, again["access_token"])
			} else {
				require.Equal(t, "bad_verification_code", again["error"])
			}
		})
	}
}

func TestTokenRequestMustRepeatRedirect(t *testing.T) {
	t.Parallel()
	s := start(t)
	elsewhere := change{"redirect_uri": "http://127.0.0.1:4999/api/auth/callback/github?keep=1"}
	to, query := s.do(t, "POST", authorizeQuery(elsewhere), "login=ada").redirect(t)
	require.Equal(t, "http://127.0.0.1:4999/api/auth/callback/github", to)
	require.Equal(t, "1", query.Get("keep"))
	require.NotEmpty(t, s.exchange(t, query.Get("code"), elsewhere)["access_token"])

	code := s.code(t, "ada", elsewhere)
	require.Equal(t, "redirect_uri_mismatch", s.exchange(t, code)["error"], "the registered one is another")
	code = s.code(t, "ada", elsewhere)
	require.NotEmpty(t, s.exchange(t, code, change{"redirect_uri": "-"})["access_token"], "it may be left out")
}

func TestAPIRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	token, bare := s.token(t, "ada"), s.token(t, "ada", change{"scope": "read:user"})
	for _, prefix := range []string{"", "/api/v3", "/api/v1"} {
		for _, path := range []string{prefix + "/user", prefix + "/user/emails"} {
			require.Equal(t, http.StatusOK, s.do(t, "GET", path, "", "Authorization", "token "+token).status)
			res := s.do(t, "GET", path, "")
			require.Equal(t, http.StatusUnauthorized, res.status)
			require.Contains(t, res.body, `"message":"Requires authentication"`)
			for _, value := range []string{"Bearer gho_GUESS", "Bearer ", "Bearer", "Basic " + token, token} {
				res := s.do(t, "GET", path, "", "Authorization", value)
				require.Equal(t, http.StatusUnauthorized, res.status, value)
				require.Contains(t, res.body, `"message":"Bad credentials"`)
			}
		}
		require.Equal(t, http.StatusOK, s.get(t, prefix+"/user", bare).status)
		res := s.get(t, prefix+"/user/emails", bare)
		if prefix == "/api/v1" { // there addresses need no scope of their own
			require.Equal(t, http.StatusOK, res.status)
			continue
		}
		require.Equal(t, http.StatusNotFound, res.status)
		require.Equal(t, "read:user", res.header.Get("X-OAuth-Scopes"))
		require.Equal(t, "user, user:email", res.header.Get("X-Accepted-OAuth-Scopes"))
	}
	require.Equal(t, http.StatusOK, s.get(t, "/user/emails", s.token(t, "ada", change{"scope": "user"})).status)
	require.Equal(t, http.StatusNotFound, s.get(t, "/users", token).status)
}

func TestLargeFormsForeignHostsAndFloodsAreRefused(t *testing.T) {
	t.Parallel()
	limiter, err := limit.PerMinute(4)
	require.NoError(t, err)
	s := start(t, func(c *Config) { c.Limit = limiter })
	big := "login=" + strings.Repeat("x", maxForm)
	require.Equal(t, http.StatusRequestEntityTooLarge, s.do(t, "POST", authorizeQuery(), big).status)
	for _, host := range []string{"evil.example", "evil.example:4010", "127.0.0.1.evil.example", "192.0.2.1"} {
		res := s.do(t, "GET", authorizeQuery(), "", "Host", host)
		require.Equal(t, http.StatusForbidden, res.status, host)
		require.Contains(t, res.body, "host_refused")
	}
	for _, host := range []string{"localhost:4010", "code.localhost", "[::1]:4010", "127.0.0.1"} {
		require.Equal(t, http.StatusOK, s.do(t, "GET", authorizeQuery(), "", "Host", host).status, host)
	}
	res := s.do(t, "GET", authorizeQuery(), "")
	require.Equal(t, http.StatusTooManyRequests, res.status)
	require.NotEmpty(t, res.header.Get("Retry-After"))
}
