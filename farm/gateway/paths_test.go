package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

const job = "/api/v1/farm/jobs/019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9/artifacts"

// allowedPaths are allowed beyond the examples of the rules.
var allowedPaths = []string{
	"HEAD /install.sh", "GET /install.sh?version=1.2.3", "GET /runner/0.39.0/svc-runner_linux_amd64.gz", "HEAD /runner/0.39.0/SHA256SUMS",
	"GET /runner/latest.json.sig",
	"POST /api/v1/farm/registrations", "POST /api/v1/farm/registrations/renew", "GET /api/v1/farm/registrations/self",
	"DELETE /api/v1/farm/registrations", "GET /api/v1/farm/agent?x=1", "POST /api/v1/farm/jobs/0/artifacts",
}

// refusedPaths are not for runners, though some look as if they were.
var refusedPaths = []string{
	"GET /", "GET /api/v1/runs", "GET /internal/runs", "POST /internal/runs", "GET /health/live", "GET /metrics", "GET /api/openapi.json",
	"GET /api/auth/get-session", "POST /api/v1/farm/jobs", "GET /api/v1/farm/jobs", "POST /api/v1/farm/enrollments",
	"GET /api/v1/farm/runners",
	"POST /install.sh", "PUT /runner/latest.json", "GET /runner/", "GET /runner", "GET " + job, "PUT " + job, "POST /api/v1/farm/agent",
	"GET /install.sh/", "GET /INSTALL.SH", "GET //install.sh", "GET /./install.sh", "GET /install.sh%00", "GET /install%2esh",
	"GET /x/../install.sh",
	"GET /runner/..", "GET /runner/../internal/runs", "GET /runner/..%2f..%2finternal/runs", "GET /runner/%2e%2e/internal/runs",
	"GET /runner//x",
	"GET /runner/..;/internal/runs", "GET /runner/.hidden", `GET /runner/..\internal\runs`, "GET /runner/a%5c..", "GET /runner/x%3f",
	"POST /api/v1/farm/registrations/../enrollments", "POST /api/v1/farm/registrations%2f..%2fenrollments", "POST /api/v1/farm/registrations2",
	"POST /api/v1/farm/jobs/ABC/artifacts", "POST /api/v1/farm/jobs//artifacts", "POST /api/v1/farm/jobs/0/0/artifacts", "POST " + job + "/",
	"POST /api/v1/farm/jobs/0%2f0/artifacts", "POST /API/v1/farm/registrations", "TRACE /api/v1/farm/registrations",
	"GET /internal/../install.sh", "GET /internal/../runner/latest.json", "GET /%69nstall.sh", "GET /%2finstall.sh",
	"GET /api/v1/farm/%61gent", "GET /api/v1/farm/registrations%2fself", "GET /runner/x/../../internal/runs?/runner/x",
	"GET https://elsewhere.example/internal/runs", "CONNECT 127.0.0.1:4000",
	"OPTIONS /install.sh",
	"get /install.sh", "X1 /api/v1/farm/registrations", "post /api/v1/farm/registrations",
}

func TestOnlyFarmPathsReachService(t *testing.T) { everyGateway(t, testOnlyFarmPaths) }

func testOnlyFarmPaths(t *testing.T, s *subject) {
	allowed := slices.Clone(allowedPaths)
	for _, rule := range Rules(256 << 20) {
		allowed = append(allowed, rule.Methods[0]+" "+rule.Example)
	}
	for _, line := range allowed {
		status, answered, body := s.raw(t, line+" HTTP/1.1\r\nHost: farm.example:4443\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		require.Equal(t, 200, status, "%s %s", line, body)
		seen := s.next(t)
		require.Equal(t, line, seen.Method+" "+seen.RequestURI)
		require.Equal(t, "farm.example:4443", seen.Host, "kept")
		require.Equal(t, "https", seen.Header.Get("X-Forwarded-Proto"))
		require.Equal(t, "127.0.0.1", seen.Header.Get("X-Forwarded-For"))
		if s.isOwn() {
			require.Len(t, answered.Values("X-Request-Id"), 1)
			require.Equal(t, answered.Get("X-Request-Id"), seen.Header.Get("X-Request-Id"))
		}
	}
	for _, line := range refusedPaths {
		status, answered, body := s.raw(t, line+" HTTP/1.1\r\nHost: farm.example:4443\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if !s.isOwn() {
			require.Contains(t, []int{400, 404, 405}, status, line)
			continue
		}
		require.Equal(t, 404, status, line)
		require.Equal(t, "application/json", answered.Get("Content-Type"), line)
		require.JSONEq(t, `{"code":"not_found","message":"There is nothing here.","details":{}}`, body, line)
	}
	require.Empty(t, s.service.seen, "none of it")
}

// A target that is no path is refused, too: in the absolute form, which is for proxies, another host may be meant.
func TestOtherTargetsAreNotFound(t *testing.T) {
	t.Parallel()
	s := start(t, Rules(256<<20))
	for _, line := range []string{"GET http://127.0.0.1/install.sh", "OPTIONS *"} {
		status, _, _ := s.raw(t, line+" HTTP/1.1\r\nHost: farm.example\r\n\r\n")
		require.Equal(t, 404, status, line)
	}
	require.Empty(t, s.service.seen)
}

// In HTTP/2 the path is a header.
func TestOnlyFarmPathsReachServiceByHTTP2(t *testing.T) { everyGateway(t, testOnlyFarmPathsByHTTP2) }

func testOnlyFarmPathsByHTTP2(t *testing.T, s *subject) {
	client := s.client(t, s.tlsWith(nil), true)
	for path, want := range map[string]int{
		"/install.sh": 200, "/runner/latest.json": 200, "/internal/runs": 404, "/runner/..%2fx": 404, "/runner/../internal/runs": 404,
		"//install.sh": 404, "/internal/../install.sh": 404, "/%69nstall.sh": 404, "/api/v1/farm/registrations%2fself": 404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address, nil)
		require.NoError(t, err)
		req.URL.Opaque = "//" + s.address + path
		if strings.HasPrefix(path, "//") {
			req.URL.Opaque, req.URL.Path = "", path
		}
		res, err := client.Do(req)
		require.NoError(t, err, path)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 2, res.ProtoMajor)
		if s.isOwn() || want == 200 {
			require.Equal(t, want, res.StatusCode, path)
		} else {
			require.Contains(t, []int{400, 404}, res.StatusCode, path)
		}
		if want == 200 {
			require.Equal(t, path, s.next(t).RequestURI)
		}
	}
	require.Empty(t, s.service.seen)
}

func TestEachExampleHasOneRule(t *testing.T) {
	t.Parallel()
	rules := Rules(1)
	for i, rule := range rules {
		for j, other := range rules {
			require.Equal(t, i == j, other.Path.MatchString(rule.Example), "%s %s", rule.Name, other.Name)
		}
	}
	require.EqualValues(t, 300<<20, UploadLimit(256<<20), "the reference of the specification")
	_, ok := Match(rules, "GET", "")
	require.False(t, ok)
}

// Methods become labels of metrics, which are kept for ever, so callers must not be able to invent any.
func TestInventedMethodIsNoLabel(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules(1) {
		for _, method := range []string{"X1", "get", http.MethodTrace, http.MethodConnect} {
			var observed middleware.Request
			g := New(&url.URL{Scheme: "http", Host: "127.0.0.1:0"}, header, Rules(1), slog.New(slog.DiscardHandler))
			defer g.Close()
			w := httptest.NewRecorder()
			h := middleware.Measured(func(r middleware.Request) { observed = r }, g)
			h.ServeHTTP(w, httptest.NewRequest(method, rule.Example, nil))
			require.Equal(t, http.StatusNotFound, w.Code, "%s %s", method, rule.Name)
			require.Empty(t, observed.Method+observed.Route, "%s %s", method, rule.Name)
		}
	}
}

func TestRuleWithoutMethodsAllowsNothing(t *testing.T) {
	t.Parallel()
	rules := []Rule{{Name: "/x", Path: path("/x")}}
	for _, method := range []string{http.MethodGet, http.MethodPost, "X1"} {
		_, ok := Match(rules, method, "/x")
		require.False(t, ok, method)
	}
}

// With another protocol, requests on the connection would bypass the rules.
func TestOnlyWebSocketsAreUpgraded(t *testing.T) { everyGateway(t, testUpgrades) }

func testUpgrades(t *testing.T, s *subject) {
	for _, c := range []struct{ path, upgrade string }{
		{"/install.sh", "websocket"}, {"/runner/x", "h2c"}, {"/api/v1/farm/agent", "h2c"}, {"/api/v1/farm/agent", "websocket, h2c"},
		{"/api/v1/farm/agent", "tls/1.3"}, {"/api/v1/farm/registrations", "websocket"},
	} {
		status, _, _ := s.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\n"+
			"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			c.path, c.upgrade))
		require.Equal(t, 200, status, c)
		seen := s.next(t)
		require.Empty(t, seen.Header.Values("Upgrade"), c)
		require.NotContains(t, strings.ToLower(seen.Header.Get("Connection")), "upgrade", c)
		require.Empty(t, seen.Header.Values("Http2-Settings"), c)
	}
}
