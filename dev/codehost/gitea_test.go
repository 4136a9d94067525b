package codehost

import (
	"fmt"
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

func TestGiteaRefusesMergesInItsWords(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	ask := func(line, body string) response {
		return s.request(t, strings.Replace(line, " ", " /api/v1/repos/acme/api", 1), body, writeToken)
	}
	merge := func(number int, head string) response {
		return ask(fmt.Sprintf("POST /pulls/%d/merge", number), `{"Do":"merge","MergeTitleField":"A title","head_commit_id":"`+head+`"}`)
	}
	open := func(branch string) response {
		return ask("POST /pulls", `{"title":"Of it","head":"`+branch+`","base":"main","labels":null}`)
	}
	head := work.push(t, "run/1", "origin/main", "a.txt", "one\n")
	other := work.push(t, "run/2", "origin/main", "a.txt", "two\n")
	made := open("run/1").is(t, http.StatusCreated)
	require.Equal(t, []any{9., false, "run/1"}, []any{made["number"], made["mergeable"], made["head"].(map[string]any)["label"]})
	open("run/1").says(t, http.StatusConflict, "pull request already exists for these targets")
	open("run/2").is(t, http.StatusCreated)
	merge(9, other).says(t, http.StatusConflict, "head out of date")
	merge(9, head).is(t, http.StatusOK)
	merge(9, head).says(t, http.StatusMethodNotAllowed, "The PR is already merged")
	require.Equal(t, true, ask("GET /pulls/9", "").is(t, http.StatusOK)["merged"])
	merge(10, other).says(t, http.StatusMethodNotAllowed, "Please try again later")
	ask("PATCH /pulls/10", `{"title":"","body":null,"state":"closed"}`).is(t, http.StatusCreated)
	merge(10, other).is(t, http.StatusNotFound)
	ask("GET /issues/10/timeline", "").list(t, "type", "close")
	ask("GET /pulls?state=closed&sort=recentupdate&limit=100", "").list(t, "number", 10, 9)
	ask("GET /issues?state=all&type=issues", "").list(t, "number", 8, 7)
	require.Equal(t, false, ask("GET /branches/main", "").is(t, http.StatusOK)["protected"])
	ask("GET /branches/nothing", "").is(t, http.StatusNotFound)
	ask("POST /statuses/"+head, `{"state":"success","context":"ci"}`).is(t, http.StatusCreated)
	ask("GET /commits/"+head+"/statuses?limit=50", "").list(t, "status", "success")
}
