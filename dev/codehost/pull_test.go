package codehost

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// pullOf opens a pull request of a branch, and returns its path in the interface.
func (s *site) pullOf(t *testing.T, branch string) string {
	t.Helper()
	body := `{"title":"Of ` + branch + `","body":"Closes #7","head":"` + branch + `","base":"main"}`
	made := s.api(t, "POST /repos/acme/api/pulls", body).is(t, http.StatusCreated)
	return fmt.Sprintf("/repos/acme/api/pulls/%.0f", made["number"])
}

func (s *site) head(t *testing.T, branch string) string {
	t.Helper()
	head, _, _ := strings.Cut(mustGit(t, "", "ls-remote", s.url+"/acme/api.git", "refs/heads/"+branch), "\t")
	return head
}

func TestPullRequestIsMerged(t *testing.T) {
	t.Parallel()
	for method, parents := range map[string]int{"merge": 2, "squash": 1} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := startWithCode(t)
			work := s.clone(t, writeToken)
			head := work.push(t, "run/1", "origin/main", "a.txt", "other\n")
			pull := s.pullOf(t, "run/1")
			got := s.api(t, "GET "+pull, "").is(t, http.StatusOK)
			require.Equal(t, head, text(got, "head", "sha"))
			require.Equal(t, exampleHead, text(got, "base", "sha"))
			require.Equal(t, true, got["mergeable"])
			s.api(t, "GET /repos/acme/api/issues", "").list(t, "number", 9, 8, 7)
			s.api(t, "GET /repos/acme/api/pulls?head=acme:run/1&base=main&state=all", "").list(t, "number", 9)
			s.api(t, "GET /repos/acme/api/pulls?head=acme:other", "").list(t, "number")

			merge := func(body string) response { return s.api(t, "PUT "+pull+"/merge", body) }
			merge(`{"sha":"`+exampleHead+`"}`).says(t, http.StatusConflict, "Head branch was modified. Review and try the merge again.")
			merge(`{"merge_method":"rebase"}`).says(t, http.StatusMethodNotAllowed, "Rebase merges are not allowed on this repository.")
			s.api(t, "PUT "+pull+"/merge", `{}`, "Authorization", "Bearer "+readToken).is(t, http.StatusForbidden)
			done := merge(`{"sha":"`+head+`","merge_method":"`+method+`","commit_title":"A title","commit_message":"A text"}`).is(t, http.StatusOK)
			require.Equal(t, true, done["merged"])
			require.Equal(t, done["sha"], s.head(t, "main"))
			mustGit(t, work.folder, "fetch", "-q", "origin")
			require.Len(t, strings.Fields(mustGit(t, work.folder, "log", "-1", "--format=%P", "origin/main")), parents)
			require.Equal(t, "A title\n\nA text", mustGit(t, work.folder, "log", "-1", "--format=%B", "origin/main"))
			merge(`{"sha":"`+head+`"}`).says(t, http.StatusMethodNotAllowed, "Pull Request is not mergeable")

			got = s.api(t, "GET "+pull, "").is(t, http.StatusOK)
			require.Equal(t, []any{true, "closed", done["sha"]}, []any{got["merged"], got["state"], got["merge_commit_sha"]})
			require.Equal(t, "bot", text(got, "merged_by", "login"))
			require.Equal(t, "closed", text(s.api(t, "GET /repos/acme/api/issues/7", "").is(t, http.StatusOK), "state"))
			s.api(t, "PATCH "+pull, `{"state":"open"}`).is(t, http.StatusUnprocessableEntity)
			counts := s.counts(t)
			require.Equal(t, "1 1 0", text(counts, "merges")+" "+text(counts, "pulls_created")+" "+text(counts, "pulls_closed"))
			require.Equal(t, "1", text(counts, "pushes", "acme/api refs/heads/run/1"))
		})
	}
}

func TestPullRequestFollowsItsBranch(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	first := work.push(t, "run/1", "origin/main", "a.txt", "one\n")
	pull := s.pullOf(t, "run/1")
	second := s.api(t, "POST /repos/acme/api/pulls", `{"title":"Again","head":"acme:run/1","base":"main"}`)
	second.says(t, http.StatusUnprocessableEntity, "Validation Failed")
	require.Contains(t, second.body, "A pull request already exists for acme:run/1.")

	next := work.push(t, "run/1", "run/1", "a.txt", "two\n")
	require.Equal(t, next, text(s.api(t, "GET "+pull, "").is(t, http.StatusOK), "head", "sha"))
	s.do(t, "POST", "/_test/faults", `{"match":{"method":"GET","path":"/pulls/9$"},"kind":"stale","times":2}`).is(t, http.StatusCreated)
	for _, want := range []string{first, first, next} {
		require.Equal(t, want, text(s.api(t, "GET "+pull, "").is(t, http.StatusOK), "head", "sha"), "a record lags behind")
	}

	s.api(t, "PATCH "+pull, `{"state":"closed"}`).is(t, http.StatusOK)
	s.api(t, "PATCH "+pull, `{"state":"open","title":"New title"}`).is(t, http.StatusOK)
	mustGit(t, work.folder, "push", "-q", "origin", ":run/1")
	got := s.api(t, "GET "+pull, "").is(t, http.StatusOK)
	require.Equal(t, []any{false, "closed", nil}, []any{got["merged"], got["state"], got["merged_at"]})
	require.Contains(t, s.api(t, "PATCH "+pull, `{"state":"open"}`).body, "branch has been deleted")

	work.push(t, "run/1", "origin/main", "a.txt", "three\n")
	pull = s.pullOf(t, "run/1")
	mustGit(t, work.folder, "push", "-q", "origin", "run/1:main")
	got = s.api(t, "GET "+pull, "").is(t, http.StatusOK)
	require.Equal(t, []any{true, "closed"}, []any{got["merged"], got["state"]}, "merged by a push")
	same := s.api(t, "POST /repos/acme/api/pulls", `{"title":"Nothing","head":"run/1","base":"main"}`)
	require.Contains(t, same.body, "No commits between main and run/1")
}

func TestConflictsAreNotMerged(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	work.push(t, "run/1", "origin/main", "a.txt", "mine\n")
	pull := s.pullOf(t, "run/1")
	work.push(t, "main", "origin/main", "a.txt", "theirs\n")
	got := s.api(t, "GET "+pull, "").is(t, http.StatusOK)
	require.Equal(t, []any{false, "dirty"}, []any{got["mergeable"], got["mergeable_state"]})
	s.api(t, "PUT "+pull+"/merge", "").says(t, http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	require.Equal(t, "0", text(s.counts(t), "merges"))
}

// However many ask at once, there is one pull request for a branch, and one merge of it.
func TestPullRequestsAreOpenedAndMergedOnce(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	head := s.clone(t, writeToken).push(t, "run/1", "origin/main", "a.txt", "one\n")
	at := func(line, body string) map[int]int {
		var group sync.WaitGroup
		statuses := make(chan int, 8)
		method, path, _ := strings.Cut(line, " ")
		for range cap(statuses) {
			group.Go(func() {
				res, err := s.try(t.Context(), method, apiPrefix+path, body, "Authorization", "Bearer "+writeToken)
				if err == nil {
					statuses <- res.status
				}
			})
		}
		group.Wait()
		close(statuses)
		got := map[int]int{}
		for status := range statuses {
			got[status]++
		}
		return got
	}
	require.Equal(t, map[int]int{201: 1, 422: 7}, at("POST /repos/acme/api/pulls", `{"title":"One","head":"run/1","base":"main"}`))
	require.Equal(t, map[int]int{200: 1, 405: 7}, at("PUT /repos/acme/api/pulls/9/merge", `{"sha":"`+head+`"}`))
	counts := s.counts(t)
	require.Equal(t, "1 1", text(counts, "pulls_created")+" "+text(counts, "merges"))
}

// A person may push to the base while somebody merges: nothing is lost.
func TestMergesAndPushesOfTheBaseAreOrdered(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work, other := s.clone(t, writeToken), s.clone(t, writeToken)
	for n := range 3 {
		branch := fmt.Sprintf("run/%d", n)
		mustGit(t, work.folder, "fetch", "-q", "origin")
		work.push(t, branch, "origin/main", branch+".txt", "one\n")
		pull := s.pullOf(t, branch)
		mustGit(t, other.folder, "fetch", "-q", "origin")
		other.commit(t, "main", "origin/main", fmt.Sprintf("person%d.txt", n), "two\n")
		merged := make(chan int)
		go func() {
			res, _ := s.try(t.Context(), "PUT", apiPrefix+pull+"/merge", "{}", "Authorization", "Bearer "+writeToken)
			merged <- res.status
		}()
		_, err := git(t, other.folder, "push", "-q", "origin", "main")
		require.Equal(t, http.StatusOK, <-merged)
		mustGit(t, other.folder, "fetch", "-q", "origin")
		if err == nil {
			mustGit(t, other.folder, "merge-base", "--is-ancestor", "main", "origin/main")
		}
		mustGit(t, other.folder, "cat-file", "-e", "origin/main:"+branch+".txt")
	}
}

func TestLyingMerge(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	work := s.clone(t, writeToken)
	work.push(t, "run/1", "origin/main", "new.txt", "one\n")
	pull := s.pullOf(t, "run/1")
	s.do(t, "POST", "/_test/faults", `{"match":{"method":"PUT"},"kind":"lie"}`).is(t, http.StatusCreated)
	require.Equal(t, true, s.api(t, "PUT "+pull+"/merge", "{}").is(t, http.StatusOK)["merged"])
	mustGit(t, work.folder, "fetch", "-q", "origin")
	_, err := git(t, work.folder, "cat-file", "-e", "origin/main:new.txt")
	require.Error(t, err)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := startWithCode(t)
	head := s.clone(t, writeToken).push(t, "run/1", "origin/main", "a.txt", "one\n")
	pull := s.pullOf(t, "run/1")
	fault := func(body string) { s.do(t, "POST", "/_test/faults", body).is(t, http.StatusCreated) }

	const moved = "Base branch was modified. Review and try the merge again."
	fault(`{"match":{"method":"PUT"},"kind":"status","status":405,"message":"` + moved + `","times":2}`)
	for range 2 {
		s.api(t, "PUT "+pull+"/merge", "{}").says(t, http.StatusMethodNotAllowed, moved)
	}
	require.Equal(t, "0", text(s.counts(t), "merges"))
	fault(`{"match":{"path":"/merge$"},"kind":"status","status":502,"after":true,"times":1}`)
	s.api(t, "PUT "+pull+"/merge", `{"sha":"`+head+`"}`).is(t, http.StatusBadGateway)
	require.Equal(t, "1", text(s.counts(t), "merges"), "it was done before the answer failed")

	fault(`{"match":{"method":"POST","path":"/comments$"},"kind":"cut","after":true,"times":1}`)
	_, err := s.try(t.Context(), "POST", apiPrefix+"/repos/acme/api/issues/8/comments", `{"body":"x"}`, "Authorization", "Bearer "+writeToken)
	require.Error(t, err)
	require.Equal(t, "1", text(s.counts(t), "comments_created"))
	fault(`{"match":{"method":"POST","path":"/comments$"},"kind":"twice","times":1}`)
	s.api(t, "POST /repos/acme/api/issues/8/comments", `{"body":"y"}`).is(t, http.StatusCreated)
	require.Equal(t, "3", text(s.counts(t), "comments_created"))

	fault(`{"match":{"path":"/issues$"},"kind":"rate_limit","times":1}`)
	limited := s.api(t, "GET /repos/acme/api/issues", "")
	limited.is(t, http.StatusForbidden)
	require.Equal(t, "0", limited.header.Get("X-RateLimit-Remaining"))
	fault(`{"match":{"path":"/issues$"},"kind":"rate_limit","retryAfter":7,"status":429,"times":1}`)
	limited = s.api(t, "GET /repos/acme/api/issues", "")
	limited.is(t, http.StatusTooManyRequests)
	require.Equal(t, "7", limited.header.Get("Retry-After"))
	fault(`{"match":{"path":"/issues$"},"kind":"body","body":"{\"half","times":1}`)
	require.Equal(t, `{"half`, s.api(t, "GET /repos/acme/api/issues", "").body)

	fault(`{"match":{"path":"git-receive-pack$"},"kind":"refuse_push","message":"GH007: Your push would publish a private email address."}`)
	work := s.clone(t, writeToken)
	work.commit(t, "run/2", "origin/main", "b.txt", "b\n")
	out, err := git(t, work.folder, "push", "origin", "run/2")
	require.Error(t, err)
	require.Contains(t, out, "GH007")
	require.Equal(t, http.StatusNoContent, s.do(t, "DELETE", "/_test/faults", "").status)
	mustGit(t, work.folder, "push", "-q", "origin", "run/2")
	for _, wrong := range []string{
		`{"kind":"none"}`, `{"kind":"status"}`, `{"kind":"delay","delay":100000}`, `{"kind":"cut","match":{"path":"("}}`, `{`,
	} {
		require.Equal(t, http.StatusUnprocessableEntity, s.do(t, "POST", "/_test/faults", wrong).status, wrong)
	}

	off := startWithCode(t, func(c *Config) { c.Faults = false })
	require.NotEqual(t, http.StatusCreated, off.do(t, "POST", "/_test/faults", `{"kind":"cut"}`).status)
	off.counts(t)
}
