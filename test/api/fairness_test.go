package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	fairRounds  = 2                      // of calm and storm in turns
	fairWarmUp  = 500 * time.Millisecond // in which a storm rises
	fairWindows = 3                      // of a round, in each of which requests are measured
	fairWindow  = 500 * time.Millisecond
	fairPause   = 15 * time.Millisecond  // of somebody between two requests
	fairMost    = time.Second            // that whoever is not the stranger waits, at the 95th percentile
	strangerGap = 200 * time.Millisecond // until a stranger who was refused asks again
)

// testFairness has somebody take all that goes on at once in a process: with
// forty service accounts in workspaces of their own, as their Owner, and as nobody. Whoever
// is in another workspace is refused nothing meanwhile, and is not kept waiting.
//
// What processors have to do for the stranger, whose requests are made here too,
// is in how long others wait, and so is what else the machine does: the log tells
// the ratio of the best windows, and no bound is held that depends on it.
func testFairness(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t), "SVC_RATE_LIMIT=6000")
	stranger := newStranger(t, v)
	calm, storm := time.Hour, time.Hour
	for range fairRounds {
		calm = min(calm, v.p95(t))
		end := stranger.begin(t)
		<-time.After(fairWarmUp)
		storm = min(storm, v.p95(t))
		v.goesOn(t)
		end()
	}
	t.Logf("p95 calm %v, storm %v, ratio %.2f", calm, storm, float64(storm)/float64(calm))
	stranger.requireHadTheirShare(t)
	require.Less(t, storm, fairMost)
}

// p95 is how long requests of a workspace take, of several people at once, in the
// best of some windows.
func (v *service) p95(t *testing.T) time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took [fairWindows][]time.Duration
	var asking sync.WaitGroup
	start := time.Now()
	for _, as := range []string{"ada@acme", "mia@acme", "vera@acme", "reader"} {
		asking.Go(func() {
			for i := 0; ; i++ {
				line := []string{"/api/v1/runs?status=active", "/api/v1/dashboard", "/api/v1/runs?status=terminal&limit=10", "/api/v1/inbox"}[i%4]
				begun := time.Now()
				window := int(begun.Sub(start) / fairWindow)
				if window >= fairWindows {
					return
				}
				status, err := v.get(t.Context(), v.site.credentials(t, as), line)
				if err != nil || status != http.StatusOK {
					t.Errorf("%s %s: %d, %v", as, line, status, err)
				}
				mu.Lock()
				took[window] = append(took[window], time.Since(begun))
				mu.Unlock()
				<-time.After(fairPause)
			}
		})
	}
	asking.Wait()
	best := time.Hour
	for _, list := range took {
		if slices.Sort(list); len(list) > 0 {
			best = min(best, list[len(list)*95/100])
		}
	}
	return best
}

// get asks without failing the test, so that any goroutine may, and reads the answer.
func (v *service) get(ctx context.Context, header http.Header, path string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.host+path, nil)
	if err != nil {
		return 0, err
	}
	r.Header = header
	res, err := v.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// goesOn does once each of what the stranger has taken all that they may of.
func (v *service) goesOn(t *testing.T) {
	t.Helper()
	position := v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme"}`).is(t, "200").header.Get("X-Svc-Position")
	for _, line := range []string{
		"GET /api/v1/audit/verify", "GET /api/v1/audit/state?seq=100", "GET /api/v1/audit/replay?fromSeq=90&toSeq=100",
		"GET /api/v1/audit/export?format=csv&action=workspace.*", streamLine,
	} {
		v.ask(t, "ada@acme", line, "").is(t, "200")
	}
	v.ask(t, "reader", "GET /api/v1/runs?status=active", "", "X-Svc-Min-Position: "+position).is(t, "200")
}

// A stranger is one person with several workspaces and many service accounts.
type stranger struct {
	service *service
	owner   http.Header
	tokens  []http.Header
	slugs   []string

	mu       sync.Mutex
	statuses map[string]map[int]int // of what was asked, how often which
}

func newStranger(t *testing.T, v *service) *stranger {
	t.Helper()
	st := &stranger{service: v, owner: v.site.credentials(t, "greta"), statuses: map[string]map[int]int{}}
	for w := range 4 {
		slug := fmt.Sprintf("stranger-%d", w)
		v.ask(t, "greta", "POST /api/auth/organization/create", fmt.Sprintf(`{"name":"Mine","slug":%q}`, slug)).is(t, "200")
		st.slugs = append(st.slugs, slug)
		for a := range 10 {
			made := v.ask(t, "greta@"+slug, "POST /api/v1/service-accounts", fmt.Sprintf(`{"name":"bot-%d","scopes":["api.read"]}`, a)).is(t, "201")
			st.tokens = append(st.tokens, v.site.credentials(t, "token "+made.text(t, "token")))
		}
	}
	return st
}

// begin asks for everything at once, again and again, until end is called.
func (st *stranger) begin(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var asking sync.WaitGroup
	again := func(what string, header http.Header, path string, slowly bool) {
		asking.Go(func() {
			for ctx.Err() == nil {
				st.ask(ctx, client, what, header, path, slowly)
			}
		})
	}
	st.writeAgain(ctx, client, &asking)
	for i, token := range st.tokens {
		for range 8 {
			again("stream", with(token, "Last-Event-ID", "0"), "/api/v1/events/stream", false)
		}
		for range 4 {
			again("position", with(token, "X-Svc-Min-Position", "9000000"), "/api/v1/runs?status=active", false)
		}
		again("read", token, "/api/v1/runs?status=active", false)
		if i%5 > 0 {
			continue
		}
		mine := with(st.owner, "X-Svc-Tenant", append(st.slugs, "globex")[i/5%5])
		again("export", mine, "/api/v1/audit/export?format=ndjson&leaf=true", true)
		again("verification", mine, "/api/v1/audit/verify", false)
		again("state", mine, "/api/v1/audit/state?seq=10", false)
		again("replay", mine, "/api/v1/audit/replay?fromSeq=1&toSeq=10", false)
	}
	return func() {
		cancel()
		asking.Wait()
		client.CloseIdleConnections()
	}
}

// unknown is a body as large as it may be, of fields that there are not.
var unknown = `{"name":"x"` + many(1500, `,"f%d":0`) + "}"

// writeAgain sends bodies, and comes to sign-in without having signed in, as begin asks.
func (st *stranger) writeAgain(ctx context.Context, client *http.Client, asking *sync.WaitGroup) {
	mine := with(with(st.owner, "X-Svc-Tenant", st.slugs[0]), "Content-Type", "application/json")
	nobody := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for _, c := range []struct {
		what, method, path string
		header             http.Header
		body               string
	}{
		{"body", http.MethodPatch, "/api/v1/workspace", mine, unknown},
		{"account body", http.MethodPost, "/api/auth/organization/check-slug", mine, unknown[:8000]},
		{"account read", http.MethodGet, "/api/auth/organization/list", st.owner, ""},
		{"callback", http.MethodGet, "/api/auth/callback/github?state=random", nobody, ""},
		{"callback form", http.MethodPost, "/api/auth/callback/github", nobody, "state=" + strings.Repeat("x", 8000)},
	} {
		for range 30 {
			asking.Go(func() {
				for ctx.Err() == nil {
					st.send(ctx, client, c.what, c.header, c.method, c.path, c.body)
				}
			})
		}
	}
}

// send sends a body, and rests a moment if it had to.
func (st *stranger) send(ctx context.Context, client *http.Client, what string, header http.Header, method, path, body string) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+st.service.host+path, strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header = header
	res, err := client.Do(r)
	if err != nil {
		return // the storm is over
	}
	defer res.Body.Close()
	st.count(what, res)
	_, _ = io.Copy(io.Discard, res.Body)
	if res.Header.Get("Retry-After") != "" {
		rest(ctx, strangerGap)
	}
}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

// ask reads what there is to read, slowly if it is to take long, and rests a
// moment if it was refused.
func (st *stranger) ask(ctx context.Context, client *http.Client, what string, header http.Header, path string, slowly bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+st.service.host+path, nil)
	if err != nil {
		return
	}
	r.Header = header
	res, err := client.Do(r)
	if err != nil {
		return // the storm is over
	}
	defer res.Body.Close()
	st.count(what, res)
	switch {
	case res.StatusCode != http.StatusOK:
		_, _ = io.Copy(io.Discard, res.Body)
		rest(ctx, strangerGap)
	case slowly:
		rest(ctx, fairWindow)
		fallthrough
	default:
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (st *stranger) count(what string, res *http.Response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.statuses[what] == nil {
		st.statuses[what] = map[int]int{}
	}
	st.statuses[what][res.StatusCode]++
	refused := res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable
	if refused && res.Header.Get("Retry-After") == "" {
		st.statuses[what][0]++
	}
}

// requireHadTheirShare requires that the storm was one: the stranger got some of
// everything, wanted more of it, and was told when to come again.
func (st *stranger) requireHadTheirShare(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(st.statuses)
	require.NoError(t, err)
	t.Logf("the stranger was answered %s", text)
	for _, what := range strings.Fields("stream export position") {
		require.Positive(t, st.statuses[what][http.StatusTooManyRequests], what)
	}
	for _, what := range []string{"stream", "export", "verification", "state", "replay", "read", "account read"} {
		require.Positive(t, st.statuses[what][http.StatusOK], what)
		require.Zero(t, st.statuses[what][0], "%s: no Retry-After", what)
	}
	require.Positive(t, st.statuses["body"][http.StatusUnprocessableEntity])
	require.Positive(t, st.statuses["account body"][http.StatusBadRequest])
	for _, what := range []string{"callback", "callback form"} {
		require.InDelta(t, 11, st.statuses[what][http.StatusFound], 2, "%s: ten a minute, of one address", what)
		require.Positive(t, st.statuses[what][http.StatusTooManyRequests])
		require.Zero(t, st.statuses[what][0], "%s: no Retry-After", what)
	}
}
