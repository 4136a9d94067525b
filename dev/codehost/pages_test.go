package codehost

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// submit sends a form of a page, from the page itself.
func (s *site) submit(t *testing.T, path, form string) response {
	t.Helper()
	return s.do(t, "POST", path, form, "Origin", s.url, "Sec-Fetch-Site", "same-origin")
}

func TestRepositoryPages(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	for path, want := range map[string]string{
		"/": `<a href="/acme/api"><strong>acme/api</strong></a>`, "/acme/api": `<a href="/acme/api/tree/main/a">a/</a>`,
		"/acme/api/tree/main/a/b": `<a href="/acme/api/blob/main/a/b/c.txt">c.txt</a>`, "/acme/api/blob/main/run.sh": "echo it runs",
		"/acme/api/commits": "Begin", "/acme/api/commit/" + exampleHead: "Ada Lind", "/acme/api/issues": "First",
		"/acme/api/issues?state=closed": "There are none.", "/acme/api/pulls": "There are none.", "/acme/api/issues/7": "A body",
		"/acme/api/issues/300": "<h1>acme/api #300</h1>", "/acme/api/pull/1300/files": "<h1>acme/api #1300</h1>",
		"/acme/api/pull/7": "<h1>acme/api #7</h1>",
	} {
		res := s.do(t, "GET", path, "")
		require.Equal(t, http.StatusOK, res.status, path)
		require.Contains(t, res.body, want, path)
		policy := res.header.Get("Content-Security-Policy")
		require.True(t, strings.HasPrefix(policy, "default-src 'none'; style-src 'self'"), path)
		require.NotContains(t, res.body, "<script", path)
	}
	for _, path := range []string{
		"/acme/none", "/acme/api/tree/none", "/acme/api/blob/main/none", "/acme/api/commit/1234", "/acme/api/tree/main/../..",
	} {
		require.NotEqual(t, http.StatusOK, s.do(t, "GET", path, "").status, path)
	}
}

func TestPeopleWriteIssuesOnPages(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	res := s.submit(t, "/acme/api/issues", "as=eve&title=<b>Mine&body=A%0D%0Atext")
	require.Equal(t, http.StatusSeeOther, res.status, res.body)
	require.Equal(t, "/acme/api/issues/9", res.header.Get("Location"))
	page := s.do(t, "GET", "/acme/api/issues/9", "").body
	require.Contains(t, page, "&lt;b&gt;Mine")
	require.Contains(t, page, "A\ntext")
	require.Equal(t, "eve", text(s.api(t, "GET /repos/acme/api/issues/9", "").is(t, http.StatusOK), "user", "login"))

	require.Equal(t, http.StatusSeeOther, s.submit(t, "/acme/api/issues/9", "as=ada&body=Done&action=close").status)
	page = s.do(t, "GET", "/acme/api/issues/9", "").body
	require.Contains(t, page, "Done")
	require.Contains(t, page, `value="reopen"`)
	require.Equal(t, http.StatusSeeOther, s.submit(t, "/acme/api/issues/9", "as=ada&action=reopen").status)
	require.Equal(t, "open", text(s.api(t, "GET /repos/acme/api/issues/9", "").is(t, http.StatusOK), "state"))

	require.Contains(t, s.submit(t, "/acme/api/issues", "as=eve&title=").body, "Check the title.")
	require.Equal(t, http.StatusUnprocessableEntity, s.submit(t, "/acme/api/issues", "as=nobody&title=x").status)
	foreign := s.do(t, "POST", "/acme/api/issues", "as=eve&title=x", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, foreign.status)
	s.api(t, "GET /repos/acme/api/issues", "").list(t, "number", 9, 8, 7)
}

func TestPeopleMergeOnPages(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	head := work.push(t, "run/1", "origin/main", "a.txt", "other\n")
	s.pullOf(t, "run/1")
	page := s.do(t, "GET", "/acme/api/pull/9", "").body
	for _, want := range []string{"<code>run/1</code>", head[:7], `<span class="plus">&#43;other`, `value="squash"`, `value="close"`} {
		require.Contains(t, page, want)
	}
	require.Equal(t, "/acme/api/pull/9", s.do(t, "GET", "/acme/api/issues/9", "").header.Get("Location"))
	stale := s.submit(t, "/acme/api/pull/9", "as=ada&action=merge&head="+exampleHead)
	require.Equal(t, http.StatusConflict, stale.status)
	require.Contains(t, stale.body, "Head branch was modified.")
	require.Equal(t, http.StatusSeeOther, s.submit(t, "/acme/api/pull/9", "as=ada&action=merge&head="+head).status)
	require.Contains(t, s.do(t, "GET", "/acme/api/pull/9", "").body, "by ada")
	require.Equal(t, "ada", text(s.api(t, "GET /repos/acme/api/pulls/9", "").is(t, http.StatusOK), "merged_by", "login"))

	work.push(t, "run/2", "origin/main", "a.txt", "conflict\n")
	s.pullOf(t, "run/2")
	require.Contains(t, s.do(t, "GET", "/acme/api/pull/10", "").body, "conflicts with main")
	require.Equal(t, http.StatusSeeOther, s.submit(t, "/acme/api/pull/10", "as=ada&action=close").status)
	require.Equal(t, "closed", text(s.api(t, "GET /repos/acme/api/pulls/10", "").is(t, http.StatusOK), "state"))
}
