package codehost

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	out, err := hex.DecodeString(text)
	require.NoError(t, err)
	return out
}

// api calls GitHub's interface with the token that may push; line is such as "GET /repos/acme/api".
func (s *site) api(t *testing.T, line, body string, header ...string) response {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	return s.do(t, method, apiPrefix+path, body, append([]string{"Authorization", "Bearer " + writeToken}, header...)...)
}

// is checks the status of an answer and decodes it.
func (a response) is(t *testing.T, status int) map[string]any {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	out := map[string]any{}
	if a.body != "" {
		require.NoError(t, json.Unmarshal([]byte(a.body), &out), a.body)
	}
	return out
}

// says checks the status and the message of a refusal.
func (a response) says(t *testing.T, status int, message string) {
	t.Helper()
	require.Equal(t, message, a.is(t, status)["message"], a.body)
}

// list decodes a list, and checks its numbers or names.
func (a response) list(t *testing.T, field string, want ...any) []map[string]any {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	var out []map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &out), a.body)
	got := []any{}
	for _, one := range out {
		value := one[field]
		if n, ok := value.(float64); ok {
			value = int(n)
		}
		got = append(got, value)
	}
	require.Equal(t, append([]any{}, want...), got)
	return out
}

// text returns the value below keys.
func text(from map[string]any, keys ...string) string {
	for _, key := range keys[:len(keys)-1] {
		from, _ = from[key].(map[string]any)
	}
	return fmt.Sprint(from[keys[len(keys)-1]])
}

func (s *site) counts(t *testing.T) map[string]any {
	t.Helper()
	return s.do(t, "GET", "/_test/counts", "").is(t, http.StatusOK)
}

func TestRepositoryAndItsRefs(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	r := s.api(t, "GET /repos/acme/api", "").is(t, http.StatusOK)
	require.Equal(t, "acme/api", r["full_name"])
	require.Equal(t, "main", r["default_branch"])
	require.Equal(t, s.url+"/acme/api.git", r["clone_url"])
	require.Equal(t, "true", text(r, "permissions", "push"))
	require.Equal(t, true, r["allow_squash_merge"])
	require.Equal(t, false, r["allow_rebase_merge"])
	for token, push := range map[string]string{readToken: "false", writeToken: "true"} {
		r := s.api(t, "GET /repos/acme/api", "", "Authorization", "token "+token).is(t, http.StatusOK)
		require.Equal(t, push, text(r, "permissions", "push"))
	}
	require.NotContains(t, s.api(t, "GET /repos/acme/api", "", "Authorization", "").is(t, http.StatusOK), "permissions")
	s.api(t, "GET /repos/acme/api/rules/branches/main", "").list(t, "type")
	none := strings.Repeat("a", 40)
	s.api(t, "GET /repos/acme/api/commits/"+none+"/statuses", "").says(t, http.StatusUnprocessableEntity, "No commit found for SHA: "+none)
	s.api(t, "GET /repos/acme/none", "").says(t, http.StatusNotFound, "Not Found")
	require.Equal(t, "bot", text(s.api(t, "GET /user", "").is(t, http.StatusOK), "login"))

	s.api(t, "POST /repos/acme/api/issues", `{"title":"x"}`, "Authorization", "").says(t, http.StatusUnauthorized, "Requires authentication")
	s.api(t, "GET /repos/acme/api", "", "Authorization", "Bearer wrong").says(t, http.StatusUnauthorized, "Bad credentials")
}

func TestAnswersHaveGitHubsHeaders(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	first := s.api(t, "GET /repos/acme/api/issues", "")
	require.Equal(t, "application/json; charset=utf-8", first.header.Get("Content-Type"))
	require.NotEmpty(t, first.header.Get("X-GitHub-Request-Id"))
	require.Equal(t, "5000", first.header.Get("X-RateLimit-Limit"))
	require.Equal(t, "4999", first.header.Get("X-RateLimit-Remaining"))
	tag := first.header.Get("ETag")
	again := s.api(t, "GET /repos/acme/api/issues", "", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.status)
	require.Empty(t, again.body)
	s.api(t, "PATCH /repos/acme/api/issues/7", `{"body":"Other"}`).is(t, http.StatusOK)
	require.Equal(t, http.StatusOK, s.api(t, "GET /repos/acme/api/issues", "", "If-None-Match", tag).status)
}

func TestIssuesAndComments(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	made := s.api(t, "POST /repos/acme/api/issues", `{"title":"Third","body":"find me","labels":["bug",{"name":"big"}],"x":1}`).
		is(t, http.StatusCreated)
	require.Equal(t, "9", text(made, "number"))
	require.Equal(t, "bot", text(made, "user", "login"))
	s.api(t, "GET /repos/acme/api/issues", "").list(t, "number", 9, 8, 7)
	s.api(t, "GET /repos/acme/api/issues?labels=bug&direction=asc", "").list(t, "number", 7, 9)
	page := s.api(t, "GET /repos/acme/api/issues?per_page=2", "")
	page.list(t, "number", 9, 8)
	require.Equal(t, "<"+s.url+`/api/v3/repos/acme/api/issues?page=2&per_page=2>; rel="next", <`+s.url+
		`/api/v3/repos/acme/api/issues?page=2&per_page=2>; rel="last"`, page.header.Get("Link"))
	s.api(t, "GET /repos/acme/api/issues?per_page=2&page=2", "").list(t, "number", 7)
	s.api(t, "GET /repos/acme/api/issues?since=2024-01-01T00:00:00Z", "").list(t, "number", 9)

	closed := s.api(t, "PATCH /repos/acme/api/issues/9", `{"state":"closed","state_reason":"not_planned"}`).is(t, http.StatusOK)
	require.Equal(t, "closed", text(closed, "state"))
	s.api(t, "GET /repos/acme/api/issues?state=closed", "").list(t, "number", 9)
	require.Equal(t, "reopened", text(s.api(t, "PATCH /repos/acme/api/issues/9", `{"state":"open"}`).is(t, 200), "state_reason"))
	s.api(t, "POST /repos/acme/api/issues", `{"title":" "}`).says(t, http.StatusUnprocessableEntity, "Validation Failed")
	s.api(t, "POST /repos/acme/api/issues", `{`).says(t, http.StatusBadRequest, "Problems parsing JSON")
	s.api(t, "GET /repos/acme/api/issues/99", "").says(t, http.StatusNotFound, "Not Found")

	comment := s.api(t, "POST /repos/acme/api/issues/9/comments", `{"body":"One"}`).is(t, http.StatusCreated)
	id := fmt.Sprintf("%.0f", comment["id"])
	s.api(t, "PATCH /repos/acme/api/issues/comments/"+id, `{"body":"Two"}`).is(t, http.StatusOK)
	require.Equal(t, "Two", s.api(t, "GET /repos/acme/api/issues/9/comments", "").list(t, "body", "Two")[0]["body"])
	require.Equal(t, "Two", s.api(t, "GET /repos/acme/api/issues/comments/"+id, "").is(t, http.StatusOK)["body"])

	got := s.counts(t)
	require.Equal(t, "1 1 1", text(got, "issues_created")+" "+text(got, "comments_created")+" "+text(got, "comments_edited"))
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	set := func(context, state string) {
		s.api(t, "POST /repos/acme/api/statuses/"+exampleHead, `{"state":"`+state+`","context":"`+context+`"}`).is(t, http.StatusCreated)
	}
	set("a", "success")
	set("b", "failure")
	set("b", "success")
	s.api(t, "GET /repos/acme/api/commits/main/statuses", "").list(t, "state", "success", "failure", "success")
	s.api(t, "POST /repos/acme/api/statuses/"+exampleHead, `{"state":"fine"}`).is(t, http.StatusUnprocessableEntity)
}

func TestPrivateRepositories(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	s.api(t, "POST /orgs/acme/repos", `{"name":"secret","private":true}`).is(t, http.StatusCreated)
	s.api(t, "POST /orgs/acme/repos", `{"name":"secret"}`).is(t, http.StatusUnprocessableEntity)
	s.api(t, "GET /repos/acme/secret", "", "Authorization", "").says(t, http.StatusNotFound, "Not Found")
	_, err := git(t, "", "ls-remote", s.url+"/acme/secret.git")
	require.Error(t, err)
	mustGit(t, "", "ls-remote", s.remote("acme/secret", readToken))
}
