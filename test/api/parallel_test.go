package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testParallel sends many concurrent requests that change one workspace, through one process and through
// two. None is refused because of a conflict, and issues are numbered without gaps.
func testParallel(t *testing.T, s *fixture) {
	for name, replicas := range map[string]int{"one process": 1, "two processes": 2} {
		t.Run(name, func(t *testing.T) {
			database := s.cloneDatabase(t)
			var services []*service
			for range replicas {
				services = append(services, s.serve(t, database))
			}
			testParallelQueue(t, services)
			testParallelInvitations(t, services)
			testParallelToggles(t, services)
		})
	}
}

// sendInParallel sends n concurrent requests, spread over the services, and requires status want for each.
// line is method and target. Requests that waited too long for a slot, which on a busy machine can be many of a
// single caller's, are retried with the same idempotency key.
func sendInParallel(t *testing.T, services []*service, n, want int, line string, body func(i int) string) {
	t.Helper()
	answers := map[string]int{}
	var mu sync.Mutex
	var requests sync.WaitGroup
	start, deadline := make(chan struct{}), time.Now().Add(timeout)
	for i := range n {
		requests.Go(func() {
			<-start
			send := func() string {
				return services[i%len(services)].sendChange(t, line, body(i), fmt.Sprintf("%s %d", line, i))
			}
			answer := send()
			for (strings.HasPrefix(answer, "503") || answer == "429 rate_limited") && time.Now().Before(deadline) {
				<-time.After(time.Second) // as Retry-After says
				answer = send()
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	close(start)
	requests.Wait()
	require.Equal(t, map[string]int{fmt.Sprint(want): n}, answers, line)
}

// sendChange sends a request as an Owner with an idempotency key. It returns the status and, for an error,
// the code, or the text of a transport error. Unlike ask it does not fail the test, so that any goroutine
// may call it.
func (v *service) sendChange(t *testing.T, line, body, key string) string {
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+v.host+path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header = v.fixture.credentials(t, "ada@acme")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	res, err := v.client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	var refusal struct{ Code string }
	if err := json.NewDecoder(res.Body).Decode(&refusal); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", refusal.Code))
}

func testParallelQueue(t *testing.T, services []*service) {
	repo, workspace := services[0].fixture.id(t, "repo acme/web"), services[0].fixture.id(t, "workspace acme")
	before := queryRows[int](t, services[0], `select max(issue_number) from runs where workspace_id = $1 and repo_id = $2`, workspace, repo)[0]
	sendInParallel(t, services, parallelRequests, 201, "POST /api/v1/backlog/queue", func(i int) string {
		return fmt.Sprintf(`{"repoId":%q,"title":"At once %d"}`, repo, i)
	})
	numbers := queryRows[int](t, services[0], `
		select (data ->> 'issueNumber')::int from events where workspace_id = $1 and kind = 'run.queued'
		and data -> 'repo' ->> 'id' = $2 and data ->> 'issueTitle' like 'At once %' order by seq`, workspace, repo)
	require.Len(t, numbers, parallelRequests)
	for i, n := range numbers {
		require.Equal(t, before+1+i, n, "issue numbers have no gaps")
	}
}

func testParallelInvitations(t *testing.T, services []*service) {
	workspace := services[0].fixture.id(t, "workspace acme")
	sendInParallel(t, services, parallelRequests, 201, "POST /api/v1/invitations", func(i int) string {
		return fmt.Sprintf(`{"email":"guest-%d@mail.example"}`, i)
	})
	sent := queryRows[int](t, services[0], `
		select count(*) from invitations where workspace_id = $1 and status = 'pending' and email like 'guest-%@mail.example'`, workspace)
	require.Equal(t, []int{parallelRequests}, sent)
}

// testParallelToggles sets and clears one flag. Each event's old value is the new value of the event before.
func testParallelToggles(t *testing.T, services []*service) {
	member := services[0].fixture.id(t, "member vera@acme")
	sendInParallel(t, services, parallelRequests, 200, "PATCH /api/v1/members/"+member, func(i int) string {
		return fmt.Sprintf(`{"canApproveLoops":%t}`, i%2 == 0)
	})
	changes := queryRows[string](t, services[0], `
		select (data ->> 'from') || ' ' || (data ->> 'to') from events
		where workspace_id = $1 and kind = 'member.approve_loops_set' and data ->> 'memberId' = $2 order by seq`,
		services[0].fixture.id(t, "workspace acme"), member)
	require.NotEmpty(t, changes)
	for i, change := range changes[1:] {
		require.NotEqual(t, changes[i], change, "an event must start from the value that the one before set")
	}
}
