package codehost

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Access under /api/v1 by requested scopes.
func TestGiteaScopes(t *testing.T) {
	t.Parallel()
	s := start(t)
	const user, emails, repos = "GET /api/v1/user", "GET /api/v1/user/emails", "POST /api/v1/user/repos"
	for asked, may := range map[string]map[string]bool{
		"read:user":                   {user: true, emails: true, repos: false},
		"write:user":                  {user: true, emails: true, repos: false},
		"openid email read:user":      {user: true, emails: true, repos: false},
		"read:repository":             {user: false, emails: false, repos: false},
		"write:repository":            {user: false, emails: false, repos: false},
		"write:user write:repository": {user: true, emails: true, repos: true},
		"all":                         {user: true, emails: true, repos: true},
		"":                            {user: true, emails: true, repos: true},
		"-":                           {user: true, emails: true, repos: true},
		"openid profile":              {user: true, emails: true, repos: true},
		"read:user user:email":        {user: true, emails: true, repos: true}, // GitHub's scopes
		"read:user,write:issue":       {user: true, emails: true, repos: true}, // one name, with a comma in it
		"read:user read:users":        {user: true, emails: true, repos: true},
		"public-only read:user":       {user: true, emails: true, repos: false},
	} {
		t.Run(asked, func(t *testing.T) {
			token := s.token(t, "ada", map[string]string{"scope": asked})
			for line, ok := range may {
				res := s.request(t, line, `{"name":"mine"}`, token)
				if !ok {
					require.Equal(t, http.StatusForbidden, res.status, line)
					require.Contains(t, res.body, "token does not have at least one of required scope(s)", line)
					continue
				}
				require.Less(t, res.status, 300, "%s: %s", line, res.body)
			}
		})
	}
	token := s.token(t, "ada", map[string]string{"scope": "all"})
	require.JSONEq(t, `{"name":"mine","full_name":"ada/mine"}`, s.request(t, repos, `{"name":"mine"}`, token).body)
	require.Equal(t, http.StatusUnprocessableEntity, s.request(t, repos, `{}`, token).status)
	require.Equal(t, http.StatusUnauthorized, s.request(t, repos, `{"name":"mine"}`, "gho_unknown").status)
}

// request sends JSON with a token; line is such as "POST /api/v1/user/repos".
func (s *site) request(t *testing.T, line, body, token string) response {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	if method == http.MethodGet {
		body = ""
	}
	return s.do(t, method, path, body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}
