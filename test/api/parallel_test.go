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

// testParallel sends many requests at the same moment that change one workspace,
// through one process and through two. Each waits its turn; none is told that
// others were faster, and the issues that are written are numbered without a gap.
func testParallel(t *testing.T, s *site) {
	for name, replicas := range map[string]int{"one process": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			database := s.clone(t)
			var services []*service
			for range replicas {
				services = append(services, s.serve(t, database))
			}
			testParallelQueue(t, services)
			testParallelInvitations(t, services)
			testParallelTicks(t, services)
		})
	}
}

// together sends n requests at the same moment, by turns through the services, and
// requires that each is answered want; line is a method and a path. Whoever is told that the service is busy
// comes again under the same key, as clients do.
func together(t *testing.T, services []*service, n, want int, line string, body func(i int) string) {
	t.Helper()
	answers := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	start, end := make(chan struct{}), time.Now().Add(limit)
	for i := range n {
		all.Go(func() {
			<-start
			ask := func() string {
				return services[i%len(services)].change(t, line, body(i), fmt.Sprintf("%s %d", line, i))
			}
			answer := ask()
			for strings.HasPrefix(answer, "503") && time.Now().Before(end) {
				<-time.After(time.Second) // as Retry-After says
				answer = ask()
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	close(start)
	all.Wait()
	require.Equal(t, map[string]int{fmt.Sprint(want): n}, answers, line)
}

// change is answered with a status and, if it is refused, a code.
func (v *service) change(t *testing.T, line, body, key string) string {
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+v.host+path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header = v.site.credentials(t, "ada@acme")
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
	repo, workspace := services[0].site.id(t, "repo acme/web"), services[0].site.id(t, "workspace acme")
	before := rows[int](t, services[0], `select max(issue_number) from runs where workspace_id = $1 and repo_id = $2`, workspace, repo)[0]
	together(t, services, atOnce, 201, "POST /api/v1/backlog/queue", func(i int) string {
		return fmt.Sprintf(`{"repoId":%q,"title":"At once %d"}`, repo, i)
	})
	numbers := rows[int](t, services[0], `
		select (data ->> 'issueNumber')::int from events where workspace_id = $1 and kind = 'run.queued'
		and data -> 'repo' ->> 'id' = $2 and data ->> 'issueTitle' like 'At once %' order by seq`, workspace, repo)
	require.Len(t, numbers, atOnce)
	for i, n := range numbers {
		require.Equal(t, before+1+i, n, "in the order in which they came")
	}
}

func testParallelInvitations(t *testing.T, services []*service) {
	workspace := services[0].site.id(t, "workspace acme")
	together(t, services, atOnce, 201, "POST /api/v1/invitations", func(i int) string {
		return fmt.Sprintf(`{"email":"guest-%d@mail.example"}`, i)
	})
	sent := rows[int](t, services[0], `
		select count(*) from invitations where workspace_id = $1 and status = 'pending' and email like 'guest-%@mail.example'`, workspace)
	require.Equal(t, []int{atOnce}, sent)
}

// Ticks of one box are set and taken away: each that changed something is an event,
// and says what it changed.
func testParallelTicks(t *testing.T, services []*service) {
	member := services[0].site.id(t, "member vera@acme")
	together(t, services, atOnce, 200, "PATCH /api/v1/members/"+member, func(i int) string {
		return fmt.Sprintf(`{"canApproveLoops":%t}`, i%2 == 0)
	})
	ticks := rows[string](t, services[0], `
		select (data ->> 'from') || ' ' || (data ->> 'to') from events
		where workspace_id = $1 and kind = 'member.approve_loops_set' and data ->> 'memberId' = $2 order by seq`,
		services[0].site.id(t, "workspace acme"), member)
	require.NotEmpty(t, ticks)
	for i, tick := range ticks[1:] {
		require.NotEqual(t, ticks[i], tick, "each begins with what the one before it left")
	}
}
