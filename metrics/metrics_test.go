package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events/store"
	"svc/farm/dispatch"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/projections/fold"
)

// allMetrics returns the metrics of all sources. Its database does not exist.
func allMetrics(t *testing.T, lags func(context.Context) ([]fold.Lag, error)) *Metrics {
	t.Helper()
	m := New("svc-test", "1.2.3")
	for _, name := range []string{"primary", "read"} {
		db, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
		require.NoError(t, err)
		t.Cleanup(db.Close)
		m.Pool(name, db)
		m.Limit(name, func() int64 { return 7 })
	}
	bound := fair.New(fair.Bound{Name: "exports", Slots: 1})
	for range 3 {
		_, _ = bound.Acquire(t.Context(), fair.Holder{})
	}
	m.Slots(bound)
	m.Views(lags, func() map[string]int { return map[string]int{"runs": 2} })
	m.Overdue(func() int { return 3 })
	m.Connections(func() ConnectionUsage {
		return ConnectionUsage{Connections: 7, Handshakes: 2, Refused: map[string]int64{"address": 5}, Failed: 4}
	})
	m.Farm(func() dispatch.Stats {
		return dispatch.Stats{Connected: 1, Leased: 2, Acknowledged: 3, Duplicates: 4, Stops: 5, Fenced: 6}
	})
	m.Integrity(func() int { return 1 }, func() map[string]int { return map[string]int{"members": 2} }, func() int { return 3 },
		func() bool { return true })
	appended := m.Appends()
	appended(store.Batch{Commits: 2, Events: 5, Waited: time.Millisecond, Took: time.Second, Stored: true})
	appended(store.Batch{Commits: 1, Events: 1, Took: time.Second})
	return m
}

func someLags(context.Context) ([]fold.Lag, error) {
	return []fold.Lag{{View: "runs", Taken: 40, Behind: 2, Parked: 3}, {View: "audit", Taken: 42}}, nil
}

func TestMetricsPassTheLinter(t *testing.T) {
	m := allMetrics(t, someLags)
	m.Request(middleware.Request{Method: "GET", Route: "/api/v1/runs/{id}", Status: 200, Took: time.Millisecond})
	problems, err := testutil.GatherAndLint(m.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestIntegrityMetrics(t *testing.T) {
	text := scrape(t, allMetrics(t, someLags))
	require.Contains(t, text, "\nsvc_proof_bad_logs 1\n")
	require.Contains(t, text, "\nsvc_view_differing_rows{view=\"members\"} 2\n")
	require.Contains(t, text, "\nsvc_view_uncompared_logs 3\n")
	require.Contains(t, text, "\nsvc_comparison_overdue 1\n")
	require.Contains(t, text, "\nsvc_connections_refused_total{full=\"address\"} 5\n")
	require.Contains(t, text, "\nsvc_tls_handshakes_failed_total 4\n")
	require.Contains(t, text, "\nsvc_connections_open 7\n")
}

func TestRequestsAreCountedByRouteAndStatus(t *testing.T) {
	m := New("svc-test", "1.2.3")
	for _, r := range []middleware.Request{
		{Method: "GET", Route: "/api/v1/runs", Status: 200}, {Method: "GET", Route: "/api/v1/runs", Status: 200},
		{Method: "GET", Route: "/api/v1/runs", Status: 503, Failed: true},
		{Status: 404}, {Status: 405}, {Method: "GET", Route: "/api/v1/audit/export"},
		{Method: "GET", Route: "/api/v1/audit/export", Status: 200, Failed: true},
	} {
		m.Request(r)
	}
	require.Equal(t, 6, testutil.CollectAndCount(m.requests))
	require.EqualValues(t, 2, testutil.ToFloat64(m.errors), "not the one that a client broke off")
	text := scrape(t, m)
	require.Contains(t, text, `svc_http_request_duration_seconds_count{method="GET",route="/api/v1/runs",status="200"} 2`)
	require.Contains(t, text, `svc_http_request_duration_seconds_count{method="GET",route="/api/v1/audit/export",status="aborted"} 1`)
	require.Contains(t, text, `svc_http_request_duration_seconds_count{method="other",route="other",status="405"} 1`)
}

func TestMetricsAreLabelledByName(t *testing.T) {
	text := scrape(t, allMetrics(t, someLags))
	for _, line := range []string{
		`svc_build_info{goversion="go1.`, `program="svc-test",version="1.2.3"} 1`,
		`svc_append_batch_commits_count 2`, `svc_append_batch_commits_sum 3`, `svc_append_events_total 5`, `svc_append_failures_total 1`,
		`svc_view_events_total{view="runs"} 40`, `svc_view_lag_events{view="runs"} 2`, `svc_view_parked_events{view="runs"} 3`,
		`svc_view_lag_events{view="audit"} 0`, `svc_view_stuck_logs{view="runs"} 2`,
		`svc_slots_held{bound="exports"} 1`, `svc_slots_waiting{bound="exports"} 0`, `svc_slots_refused_total{bound="exports",why="full"} 2`,
		`svc_slots_refused_total{bound="exports",why="share"} 0`,
		`svc_farm_runners_connected 1`, `svc_farm_jobs_claimed_total 2`, `svc_farm_messages_total 3`, `svc_farm_duplicates_total 4`,
		`svc_farm_stops_total 5`, `svc_farm_leases_fenced_total 6`,
		`svc_limit_refused_total{limit="read"} 7`, `svc_database_pool_connections{pool="read",state="idle"} 0`,
	} {
		require.Contains(t, text, line)
	}
}

// If the database is away, only its own metrics are missing.
func TestMetricsWithoutDatabase(t *testing.T) {
	m := allMetrics(t, func(context.Context) ([]fold.Lag, error) { return nil, errors.New("it is away") })
	text := scrape(t, m)
	require.NotContains(t, text, "svc_view_lag_events{")
	require.Contains(t, text, `svc_view_stuck_logs{view="runs"} 2`)
	require.Contains(t, text, "svc_database_pool_connections_limit")
	require.Contains(t, text, "svc_build_info")
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestServesUntilItIsStopped(t *testing.T) {
	var said strings.Builder
	m := New("svc-test", "1.2.3")
	stop, err := m.Serve(t.Context(), "127.0.0.1:0", slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	stop()
	require.Contains(t, said.String(), "msg=stopped listener=metrics")

	stop, err = m.Serve(t.Context(), "", slog.New(slog.DiscardHandler))
	require.NoError(t, err, "no address is no metrics")
	stop()

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, err = m.Serve(t.Context(), config.Addr(ln.Addr().String()), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "SVC_METRICS_ADDR: the address "+ln.Addr().String()+" is in use")
}
