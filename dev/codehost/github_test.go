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
	require.Equal(t, exampleHead, text(s.api(t, "GET /repos/acme/api/git/ref/heads/main", "").is(t, http.StatusOK), "object", "sha"))
	require.Equal(t, exampleHead, text(s.api(t, "GET /repos/acme/api/branches/main", "").is(t, http.StatusOK), "commit", "sha"))
	s.api(t, "GET /repos/acme/api/branches/none", "").says(t, http.StatusNotFound, "Branch not found")
	s.api(t, "GET /repos/acme/api/branches/main/protection", "").says(t, http.StatusNotFound, "Branch not protected")
	s.api(t, "GET /repos/acme/api/rules/branches/main", "").list(t, "type")
	s.api(t, "GET /repos/acme/api/git/ref/heads/none", "").says(t, http.StatusNotFound, "Not Found")
	s.api(t, "GET /repos/acme/api/branches", "").list(t, "name", "main")
	commit := s.api(t, "GET /repos/acme/api/commits/"+exampleHead, "").is(t, http.StatusOK)
	require.Equal(t, "2023-11-14T22:13:20Z", text(commit, "commit", "author", "date"))
	require.Equal(t, "ada", text(commit, "author", "login"))
	require.Len(t, commit["files"], 6)
	none := strings.Repeat("a", 40)
	s.api(t, "GET /repos/acme/api/commits/"+none, "").says(t, http.StatusUnprocessableEntity, "No commit found for SHA: "+none)
	s.api(t, "GET /repos/acme/none", "").says(t, http.StatusNotFound, "Not Found")
	require.Equal(t, "bot", text(s.api(t, "GET /user", "").is(t, http.StatusOK), "login"))

	s.api(t, "POST /repos/acme/api/git/refs", `{"ref":"refs/heads/x/y","sha":"`+exampleHead+`"}`).is(t, http.StatusCreated)
	s.api(t, "POST /repos/acme/api/git/refs", `{"ref":"refs/heads/x/y","sha":"`+exampleHead+`"}`).
		says(t, http.StatusUnprocessableEntity, "Reference already exists")
	require.Equal(t, http.StatusNoContent, s.api(t, "DELETE /repos/acme/api/git/refs/heads/x/y", "").status)
	s.api(t, "DELETE /repos/acme/api/git/refs/heads/x/y", "").says(t, http.StatusUnprocessableEntity, "Reference does not exist")
	s.api(t, "DELETE /repos/acme/api/git/refs/heads/x/y", "", "Authorization", "Bearer "+readToken).
		says(t, http.StatusForbidden, "Resource not accessible by personal access token")
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

	for query, want := range map[string]int{
		"repo:acme/api+is:issue+is:open": 3, "repo:acme/api+find+me": 1, `repo:acme/api+"find+me"+in:title`: 0, "repo:acme/api+label:bug": 2,
		"repo:acme/api+is:pr": 0, "repo:acme/api+author:ada+second": 1,
	} {
		got := s.api(t, "GET /search/issues?q="+query, "").is(t, http.StatusOK)
		require.Equal(t, fmt.Sprint(want), text(got, "total_count"), query)
	}
	got := s.counts(t)
	require.Equal(t, "1 1 1", text(got, "issues_created")+" "+text(got, "comments_created")+" "+text(got, "comments_edited"))
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	state := func() string {
		return text(s.api(t, "GET /repos/acme/api/commits/"+exampleHead+"/status", "").is(t, http.StatusOK), "state")
	}
	require.Equal(t, "pending", state())
	set := func(context, state string) {
		s.api(t, "POST /repos/acme/api/statuses/"+exampleHead, `{"state":"`+state+`","context":"`+context+`"}`).is(t, http.StatusCreated)
	}
	set("a", "success")
	require.Equal(t, "success", state())
	set("b", "failure")
	require.Equal(t, "failure", state())
	set("b", "success")
	require.Equal(t, "success", state())
	s.api(t, "GET /repos/acme/api/commits/main/statuses", "").list(t, "state", "success", "failure", "success")
	require.Equal(t, "0", text(s.api(t, "GET /repos/acme/api/commits/main/check-runs", "").is(t, http.StatusOK), "total_count"))
	s.api(t, "POST /repos/acme/api/statuses/"+exampleHead, `{"state":"fine"}`).is(t, http.StatusUnprocessableEntity)
}

func TestPrivateArchivedAndRenamedRepositories(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	s.api(t, "PATCH /repos/acme/api", `{"private":true}`).is(t, http.StatusOK)
	s.api(t, "GET /repos/acme/api", "", "Authorization", "").says(t, http.StatusNotFound, "Not Found")
	_, err := git(t, "", "ls-remote", s.url+"/acme/api.git")
	require.Error(t, err)
	mustGit(t, "", "ls-remote", s.remote("acme/api", readToken))
	require.Equal(t, "0", text(s.do(t, "GET", apiPrefix+"/search/issues?q=first", "").is(t, http.StatusOK), "total_count"))

	before := s.api(t, "GET /repos/acme/api", "").is(t, http.StatusOK)
	require.Equal(t, "acme/new", text(s.api(t, "PATCH /repos/acme/api", `{"name":"new"}`).is(t, http.StatusOK), "full_name"))
	moved := s.api(t, "GET /repos/acme/api/issues?state=all", "")
	moved.says(t, http.StatusMovedPermanently, "Moved Permanently")
	id := fmt.Sprintf("%.0f", before["id"])
	require.Equal(t, s.url+"/api/v3/repositories/"+id+"/issues?state=all", moved.header.Get("Location"))
	require.Equal(t, "acme/new", text(s.api(t, "GET /repositories/"+id, "").is(t, http.StatusOK), "full_name"))
	s.api(t, "GET /repositories/"+id+"/issues", "").list(t, "number", 8, 7)
	mustGit(t, "", "ls-remote", s.remote("acme/api", readToken))

	other := s.api(t, "POST /orgs/acme/repos", `{"name":"api"}`).is(t, http.StatusCreated)
	require.NotEqual(t, before["id"], other["id"], "another one has the name now")
	require.Equal(t, other["id"], s.api(t, "GET /repos/acme/api", "").is(t, http.StatusOK)["id"])
	require.Empty(t, mustGit(t, "", "ls-remote", s.remote("acme/api", readToken)))

	s.api(t, "PATCH /repos/acme/new", `{"archived":true}`).is(t, http.StatusOK)
	s.api(t, "POST /repos/acme/new/issues", `{"title":"x"}`).says(t, http.StatusForbidden, "Repository was archived so is read-only.")
}

func TestPermissionsOfPeople(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	permission := func(login string) string {
		return text(s.api(t, "GET /repos/acme/api/collaborators/"+login+"/permission", "").is(t, http.StatusOK), "permission")
	}
	for login, want := range map[string]string{
		"ada": "write", "eve": "read", "bot": "write", "reader": "read", "nobody": "none", "bot-evil": "none",
	} {
		require.Equal(t, want, permission(login), login)
	}
	require.Equal(t, http.StatusNoContent, s.do(t, "PATCH", "/_test/repos/acme/api", `{"writers":["eve"]}`).status)
	require.Equal(t, "write", permission("eve"))
}
