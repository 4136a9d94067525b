package api

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// testMetrics checks the metrics of a service, and that they contain nothing that a caller or a workspace
// has chosen.
func testMetrics(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t), "SVC_METRICS_ADDR=127.0.0.1:0", "SVC_RATE_LIMIT=40", "SVC_ENGINE_URL=http://127.0.0.1:1")
	m := &metricsEndpoint{v.listenAddress(t, func(line string) bool { return strings.Contains(line, "listener=metrics") })}

	created := v.ask(t, "ada@acme", "POST /api/v1/service-accounts", `{"name":"chosen-by-acme","scopes":["api.read"]}`).is(t, "201")
	token := created.text(t, "token")
	for range 3 {
		v.ask(t, "token "+token, listOneRun, "").is(t, "200")
	}
	run := v.ask(t, "reader", listOneRun, "").text(t, "items.0.id")
	v.ask(t, "reader", "GET /api/v1/runs/"+run, "").is(t, "200")
	v.ask(t, "reader", "GET /api/v1/runs/"+noID, "").is(t, "404 run_not_found")
	v.ask(t, "reader", "GET /api/v1/members", "").is(t, "403 service_principal_refused")
	v.ask(t, "vera", "GET /api/auth/get-session", "").is(t, "200")
	v.ask(t, "nobody", "GET /api/auth/callback/chosen?code=chosen", "")
	require.Equal(t, 503, v.ask(t, "nobody", "GET /health/ready", "").status)

	t.Run("requests", func(t *testing.T) {
		scraped := m.scrape(t)
		require.EqualValues(t, 4, scraped.requests("GET", "/api/v1/runs", "200"))
		require.EqualValues(t, 1, scraped.requests("POST", "/api/v1/service-accounts", "201"))
		require.EqualValues(t, 1, scraped.requests("GET", "/api/v1/runs/{id}", "200"))
		require.EqualValues(t, 1, scraped.requests("GET", "/api/v1/runs/{id}", "404"))
		require.EqualValues(t, 1, scraped.requests("GET", "/api/v1/members", "403"))
		require.EqualValues(t, 1, scraped.requests("GET", "/api/auth/get-session", "200"))
		require.EqualValues(t, 1, scraped.requests("GET", "/api/auth/callback/:provider", "302"))
		require.EqualValues(t, 1, scraped.requests("GET", "/health/ready", "503"))
		require.EqualValues(t, 1, scraped.value("svc_http_server_errors_total"))
		sum := scraped.value("svc_http_request_duration_seconds_sum", "route", "/api/v1/runs")
		require.Positive(t, sum)
		require.Less(t, sum, timeout.Seconds())
	})
	t.Run("appends", func(t *testing.T) {
		scraped := m.scrape(t)
		require.GreaterOrEqual(t, scraped.value("svc_append_events_total"), 1.0)
		commits := scraped.value("svc_append_batch_commits_count")
		require.GreaterOrEqual(t, scraped.value("svc_append_batch_commits_sum"), commits)
		for _, name := range []string{"svc_append_wait_seconds", "svc_append_duration_seconds"} {
			require.Equal(t, commits, scraped.value(name+"_count"), name)
			require.Positive(t, scraped.value(name+"_sum"), name)
			require.Less(t, scraped.value(name+"_sum"), timeout.Seconds(), name)
		}
		require.Zero(t, scraped.value("svc_append_failures_total"))
	})
	t.Run("views", func(t *testing.T) {
		eventually(t, func() bool {
			scraped := m.scrape(t)
			return !slices.ContainsFunc(checkpointedViews, func(view string) bool { return scraped.value("svc_view_lag_events", "view", view) != 0 })
		})
		events := queryRows[int64](t, v, `select sum(head)::bigint from logs`)[0]
		for _, view := range checkpointedViews {
			require.EqualValues(t, events, m.scrape(t).value("svc_view_events_total", "view", view), view)
		}
		scraped := m.scrape(t)
		for _, view := range checkpointedViews {
			require.Zero(t, scraped.value("svc_view_stuck_logs", "view", view), view)
		}
		require.Zero(t, m.scrape(t).value("svc_view_parked_events", "view", "runs"))
	})
	t.Run("pool", func(t *testing.T) {
		scraped := m.scrape(t)
		require.EqualValues(t, 8, scraped.value("svc_database_pool_connections_limit", "pool", "primary"))
		require.Positive(t, scraped.value("svc_database_pool_acquires_total", "pool", "primary"))
		open := 0.0
		for _, state := range []string{"acquired", "idle", "constructing"} {
			open += scraped.value("svc_database_pool_connections", "state", state)
		}
		require.Greater(t, open, 0.0)
		require.LessOrEqual(t, open, 8.0)
		for _, name := range []string{"svc_database_pool_waits_total", "svc_database_pool_wait_seconds_total"} {
			require.GreaterOrEqual(t, scraped.value(name), 0.0)
		}
	})
	t.Run("build and process", func(t *testing.T) {
		scraped := m.scrape(t)
		require.EqualValues(t, 1, scraped.value("svc_build_info", "program", "svc-rest"))
		require.Regexp(t, `^\d+\.\d+\.\d+$`, scraped.series("svc_build_info")[0].labels["version"])
		require.Positive(t, scraped.value("go_goroutines"))
		require.Positive(t, scraped.value("process_start_time_seconds"))
	})
	t.Run("limits", func(t *testing.T) {
		require.Zero(t, m.scrape(t).value("svc_limit_refused_total", "limit", "api"))
		eventually(t, func() bool { return v.ask(t, "token "+token, listOneRun, "").status == 429 })
		require.EqualValues(t, 1, m.scrape(t).value("svc_limit_refused_total", "limit", "api"))
		eventually(t, func() bool { return v.ask(t, "nobody", "POST /api/auth/sign-in/email", "no JSON").status == 429 })
		require.EqualValues(t, 1, m.scrape(t).value("svc_limit_refused_total", "limit", "sign_in"))
	})

	t.Run("unknown paths share one series", func(t *testing.T) {
		v.ask(t, "nobody", "GET /nothing", "").is(t, "404 not_found")
		before := m.scrape(t)
		for i := range 20 {
			v.ask(t, "nobody", fmt.Sprintf("GET /nothing/%d", i), "").is(t, "404 not_found")
			v.ask(t, "nobody", fmt.Sprintf("METHOD%d /nothing", i), "").is(t, "404 not_found")
			v.ask(t, "nobody", fmt.Sprintf("GET /api/auth/nothing-%d", i), "").is(t, "404 NOT_FOUND")
			v.ask(t, "nobody", fmt.Sprintf("GET /api/v1/nothing-%d", i), "").is(t, "404 not_found")
		}
		after := m.scrape(t)
		require.Equal(t, before.requestSeries(), after.requestSeries())
		require.Equal(t, before.requests("other", "other", "404")+80, after.requests("other", "other", "404"))
	})
	t.Run("route labels are known routes", func(t *testing.T) {
		known := maps.Clone(v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200").at(t, "paths").(map[string]any))
		for _, path := range []string{
			"other", "/health/ready", "/api/openapi.json", "/api/auth/get-session", "/api/auth/callback/:provider", "/api/auth/sign-in/email",
		} {
			known[path] = true
		}
		for _, one := range m.scrape(t).series("svc_http_request_duration_seconds_count") {
			require.Contains(t, known, one.labels["route"])
		}
	})
	t.Run("nothing identifies callers or workspaces", func(t *testing.T) {
		text := m.text(t)
		for _, chosen := range []string{"chosen", "acme", "@", token, run} {
			require.False(t, strings.Contains(text, chosen), chosen)
		}
		require.Empty(t, regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-`).FindString(text), "an id")
		s.mu.Lock()
		defer s.mu.Unlock()
		for secret, description := range s.secrets {
			require.False(t, strings.Contains(text, secret), description)
		}
	})
	t.Run("names and help follow the conventions", func(t *testing.T) {
		problems, err := promlint.New(strings.NewReader(m.text(t))).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)
	})
	t.Run("separate listener", func(t *testing.T) {
		v.ask(t, "nobody", "GET /metrics", "").is(t, "404 not_found")
		for _, path := range []string{"/", "/health/live", "/api/v1/runs", "/debug/pprof/"} {
			res, err := http.Get("http://" + m.address + path)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusNotFound, res.StatusCode, path)
		}
	})
}

// A metricsEndpoint is the metrics listener of a running service.
type metricsEndpoint struct{ address string }

func (m *metricsEndpoint) text(t *testing.T) string {
	t.Helper()
	res, err := http.Get("http://" + m.address + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(text))
	return string(text)
}

// A scrape is the time series of one scrape.
type scrape []series

type series struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	seriesLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	oneLabel   = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

func (m *metricsEndpoint) scrape(t *testing.T) (list scrape) {
	t.Helper()
	for line := range strings.Lines(m.text(t)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := seriesLine.FindStringSubmatch(strings.TrimSpace(line))
		require.NotNil(t, parts, line)
		one := series{name: parts[1], labels: map[string]string{}}
		for _, label := range oneLabel.FindAllStringSubmatch(parts[2], -1) {
			one.labels[label[1]] = label[2]
		}
		var err error
		one.value, err = strconv.ParseFloat(parts[3], 64)
		require.NoError(t, err, line)
		list = append(list, one)
	}
	return list
}

// series returns the series of a name that have all labels, given as names and values in turn.
func (s scrape) series(name string, labels ...string) (list []series) {
	for _, one := range s {
		if one.name == name && one.has(labels) {
			list = append(list, one)
		}
	}
	return list
}

// value returns the value of the first such series, or -1 if there is none.
func (s scrape) value(name string, labels ...string) float64 {
	if list := s.series(name, labels...); len(list) > 0 {
		return list[0].value
	}
	return -1
}

// requests returns the number of requests that were answered with a status.
func (s scrape) requests(method, route, status string) uint64 {
	return uint64(max(s.value("svc_http_request_duration_seconds_count", "method", method, "route", route, "status", status), 0))
}

// requestSeries returns the number of time series about requests.
func (s scrape) requestSeries() int { return len(s.series("svc_http_request_duration_seconds_count")) }

func (s series) has(labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		if s.labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
