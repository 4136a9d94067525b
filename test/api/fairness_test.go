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
	fairRounds      = 2                      // each measures without and with load
	fairWarmUp      = 500 * time.Millisecond // until the load is at its full
	fairWindows     = 3                      // measured in each round; the best one counts
	fairWindow      = 500 * time.Millisecond
	fairPause       = 15 * time.Millisecond  // between two requests of one caller
	fairMaxP95      = time.Second            // bound for the other tenants under load, on a machine that is not busy
	fairMaxRatio    = 10                     // bound for the ratio of loaded to unloaded latency on a busy one, and of requests served
	fairTries       = 4                      // of a request that waits in vain
	fairInVain      = 20                     // one in so many requests may
	noisyRetryDelay = 200 * time.Millisecond // after a refusal
)

// testFairness loads a service with a noisy tenant: forty service accounts in four workspaces, their Owner,
// and unauthenticated requests, all at once. Callers of another workspace are refused nothing meanwhile,
// and their p95 stays under fairMaxP95.
//
// The tenant's requests are sent by this process, so their cost is part of what is measured. The ratio of
// loaded to unloaded latency is logged, but bounded only if the machine is busy with other work as well.
func testFairness(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_RATE_LIMIT=6000")
	noisy := newNoisyTenant(t, v)
	unloaded, loaded := time.Hour, time.Hour
	var servedUnloaded, servedLoaded int
	for range fairRounds {
		p95, served := v.measure(t)
		unloaded, servedUnloaded = min(unloaded, p95), servedUnloaded+served
		stop := noisy.startLoad(t)
		<-time.After(fairWarmUp)
		p95, served = v.measure(t)
		loaded, servedLoaded = min(loaded, p95), servedLoaded+served
		v.requireOthersAreServed(t)
		stop()
	}
	t.Logf("p95 unloaded %v, loaded %v, ratio %.2f", unloaded, loaded, float64(loaded)/float64(unloaded))
	t.Logf("requests unloaded %d, loaded %d", servedUnloaded, servedLoaded)
	noisy.requireLimited(t)
	require.Less(t, loaded, max(fairMaxP95, fairMaxRatio*unloaded))
	require.Greater(t, fairMaxRatio*servedLoaded, servedUnloaded)
}

// measure sends requests of four callers of one workspace at once, and returns the 95th percentile of
// their latency in the best window, and how many were served in all.
func (v *service) measure(t *testing.T) (p95 time.Duration, served int) {
	t.Helper()
	var mu sync.Mutex
	var took [fairWindows][]time.Duration
	var sent, inVain int
	var callers sync.WaitGroup
	start := time.Now()
	for _, as := range []string{"ada@acme", "mia@acme", "vera@acme", "reader"} {
		callers.Go(func() {
			for i := 0; ; i++ {
				line := []string{"/api/v1/runs?status=active", "/api/v1/dashboard", "/api/v1/runs?status=terminal&limit=10", "/api/v1/inbox"}[i%4]
				sentAt := time.Now()
				window := int(sentAt.Sub(start) / fairWindow)
				if window >= fairWindows {
					return
				}
				status, tries, err := v.getPatiently(t.Context(), v.fixture.credentials(t, as), line)
				if err != nil || status != http.StatusOK {
					t.Errorf("%s %s: %d, %v", as, line, status, err)
				}
				mu.Lock()
				took[window] = append(took[window], time.Since(sentAt))
				sent, inVain = sent+tries, inVain+tries-1
				mu.Unlock()
				<-time.After(fairPause)
			}
		})
	}
	callers.Wait()
	require.LessOrEqual(t, inVain, sent/fairInVain, "of %d requests waited in vain", sent)
	p95 = time.Hour
	for _, list := range took {
		if slices.Sort(list); len(list) > 0 {
			p95 = min(p95, list[len(list)*95/100])
		}
		served += len(list)
	}
	return p95, served
}

// get sends a GET request and discards the body. Unlike ask it returns errors instead of failing the test,
// so that any goroutine may call it.
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

// getPatiently is get, but repeats a request that waited in vain for a second or more, and returns how often it was
// sent: if the machine stalls, nobody is served in time.
func (v *service) getPatiently(ctx context.Context, header http.Header, path string) (status, tries int, err error) {
	for tries < fairTries {
		tries++
		sentAt := time.Now()
		status, err = v.get(ctx, header, path)
		if status != http.StatusServiceUnavailable || time.Since(sentAt) < time.Second {
			break
		}
	}
	return status, tries, err
}

// requireOthersAreServed uses each limited resource once from another workspace, while the noisy tenant has
// used up its own share.
func (v *service) requireOthersAreServed(t *testing.T) {
	t.Helper()
	position := v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme"}`).is(t, "200").header.Get("X-Svc-Position")
	for _, line := range []string{
		"GET /api/v1/audit/verify", "GET /api/v1/audit/state?seq=100", "GET /api/v1/audit/replay?fromSeq=90&toSeq=100",
		"GET /api/v1/audit/export?format=csv&action=workspace.*", streamRequest,
	} {
		v.ask(t, "ada@acme", line, "").is(t, "200")
	}
	v.ask(t, "reader", "GET /api/v1/runs?status=active", "", "X-Svc-Min-Position: "+position).is(t, "200")
}

// A noisyTenant is one person with four workspaces of ten service accounts each.
type noisyTenant struct {
	service *service
	owner   http.Header
	tokens  []http.Header
	slugs   []string

	loadedSince time.Time // when the load was first started

	mu       sync.Mutex
	statuses map[string]map[int]int // counts by request name and status; status 0 is a refusal without Retry-After
}

func newNoisyTenant(t *testing.T, v *service) *noisyTenant {
	t.Helper()
	st := &noisyTenant{service: v, owner: v.fixture.credentials(t, "greta"), statuses: map[string]map[int]int{}}
	for w := range 4 {
		slug := fmt.Sprintf("stranger-%d", w)
		v.ask(t, "greta", "POST /api/auth/organization/create", fmt.Sprintf(`{"name":"Mine","slug":%q}`, slug)).is(t, "200")
		st.slugs = append(st.slugs, slug)
		for a := range 10 {
			body := fmt.Sprintf(`{"name":"bot-%d","scopes":["api.read"]}`, a)
			created := v.ask(t, "greta@"+slug, createAccount, body).is(t, "201")
			st.tokens = append(st.tokens, v.fixture.credentials(t, "token "+created.text(t, "token")))
		}
	}
	return st
}

// startLoad repeats requests of every kind concurrently until stop is called.
func (st *noisyTenant) startLoad(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	if st.loadedSince.IsZero() {
		st.loadedSince = time.Now()
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var senders sync.WaitGroup
	repeat := func(name string, header http.Header, path string, readSlowly bool) {
		senders.Go(func() {
			for ctx.Err() == nil {
				st.get(ctx, client, name, header, path, readSlowly)
			}
		})
	}
	st.startWriters(ctx, client, &senders)
	for i, token := range st.tokens {
		for range 8 {
			repeat("stream", withHeader(token, "Last-Event-ID", "0"), "/api/v1/events/stream", false)
		}
		for range 4 {
			repeat("position", withHeader(token, "X-Svc-Min-Position", "9000000"), "/api/v1/runs?status=active", false)
		}
		repeat("read", token, "/api/v1/runs?status=active", false)
		if i%5 > 0 {
			continue
		}
		owner := withHeader(st.owner, "X-Svc-Tenant", append(st.slugs, "globex")[i/5%5])
		repeat("export", owner, "/api/v1/audit/export?format=ndjson&leaf=true", true)
		repeat("verification", owner, "/api/v1/audit/verify", false)
		repeat("state", owner, "/api/v1/audit/state?seq=10", false)
		repeat("replay", owner, "/api/v1/audit/replay?fromSeq=1&toSeq=10", false)
	}
	return func() {
		cancel()
		senders.Wait()
		client.CloseIdleConnections()
	}
}

// bodyOfUnknownFields is a body of nearly the maximum size, with fields that no request has.
var bodyOfUnknownFields = `{"name":"x"` + repeatNumbered(1500, `,"f%d":0`) + "}"

// startWriters repeats requests with bodies, and sign-in callbacks without a sign-in, until ctx ends.
func (st *noisyTenant) startWriters(ctx context.Context, client *http.Client, senders *sync.WaitGroup) {
	owner := withHeader(withHeader(st.owner, "X-Svc-Tenant", st.slugs[0]), "Content-Type", "application/json")
	nobody := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		body               string
	}{
		{"body", http.MethodPatch, "/api/v1/workspace", owner, bodyOfUnknownFields},
		{"account body", http.MethodPost, "/api/auth/organization/check-slug", owner, bodyOfUnknownFields[:8000]},
		{"account read", http.MethodGet, "/api/auth/organization/list", st.owner, ""},
		{"callback", http.MethodGet, "/api/auth/callback/github?state=random", nobody, ""},
		{"callback form", http.MethodPost, "/api/auth/callback/github", nobody, "state=" + strings.Repeat("x", 8000)},
	} {
		for range 30 {
			senders.Go(func() {
				for ctx.Err() == nil {
					st.send(ctx, client, c.name, c.header, c.method, c.path, c.body)
				}
			})
		}
	}
}

// send sends a request with a body, counts the answer, and pauses if the answer has Retry-After.
func (st *noisyTenant) send(ctx context.Context, client *http.Client, name string, header http.Header, method, path, body string) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+st.service.host+path, strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header = header
	res, err := client.Do(r)
	if err != nil {
		return // the load is being stopped
	}
	defer res.Body.Close()
	st.countStatus(name, res)
	_, _ = io.Copy(io.Discard, res.Body)
	if res.Header.Get("Retry-After") != "" {
		pause(ctx, noisyRetryDelay)
	}
}

// withHeader returns a copy of h with a header set.
func withHeader(h http.Header, name, value string) http.Header {
	h = h.Clone()
	h.Set(name, value)
	return h
}

// get sends a GET request, counts the answer, and pauses if it was refused. With readSlowly it waits before
// it reads the body.
func (st *noisyTenant) get(ctx context.Context, client *http.Client, name string, header http.Header, path string, readSlowly bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+st.service.host+path, nil)
	if err != nil {
		return
	}
	r.Header = header
	res, err := client.Do(r)
	if err != nil {
		return // the load is being stopped
	}
	defer res.Body.Close()
	st.countStatus(name, res)
	switch {
	case res.StatusCode != http.StatusOK:
		_, _ = io.Copy(io.Discard, res.Body)
		pause(ctx, noisyRetryDelay)
	case readSlowly:
		pause(ctx, fairWindow)
		fallthrough
	default:
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (st *noisyTenant) countStatus(name string, res *http.Response) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.statuses[name] == nil {
		st.statuses[name] = map[int]int{}
	}
	st.statuses[name][res.StatusCode]++
	refused := res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable
	if refused && res.Header.Get("Retry-After") == "" {
		st.statuses[name][0]++
	}
}

// requireLimited requires that the load was high enough: requests of every kind were served, the limited
// ones were also refused, and each refusal had Retry-After.
func (st *noisyTenant) requireLimited(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(st.statuses)
	require.NoError(t, err)
	t.Logf("answers to the noisy tenant: %s", text)
	for _, name := range strings.Fields("stream export position") {
		require.Positive(t, st.statuses[name][http.StatusTooManyRequests], name)
	}
	for _, name := range []string{"stream", "export", "verification", "state", "replay", "read", "account read"} {
		require.Positive(t, st.statuses[name][http.StatusOK], name)
		require.Zero(t, st.statuses[name][0], "%s: no Retry-After", name)
	}
	require.Positive(t, st.statuses["body"][http.StatusUnprocessableEntity])
	require.Positive(t, st.statuses["account body"][http.StatusBadRequest])
	for _, name := range []string{"callback", "callback form"} {
		allowed := 10 + int(time.Since(st.loadedSince)/(6*time.Second)) // ten at once, and ten a minute per address
		require.GreaterOrEqual(t, st.statuses[name][http.StatusFound], 10, name)
		require.LessOrEqual(t, st.statuses[name][http.StatusFound], allowed, name)
		require.Positive(t, st.statuses[name][http.StatusTooManyRequests])
		require.Zero(t, st.statuses[name][0], "%s: no Retry-After", name)
	}
}
