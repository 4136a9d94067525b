package engine

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const secret = config.Secret("a shared secret of the test")

func start(t *testing.T, h http.Handler) (Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := config.ParseURL(s.URL)
	require.NoError(t, err)
	return Client{URL: u, Secret: secret, HTTP: s.Client()}, s
}

func startEngine(t *testing.T) (Client, *httptest.Server) {
	return start(t, NewHandler(secret, "1.2.3", slog.New(slog.DiscardHandler)))
}

// ask returns the status and the decoded body.
func ask(t *testing.T, s *httptest.Server, method, path, authorization string) (int, map[string]any, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	require.NoError(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := s.Client().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
	return res.StatusCode, body, res.Header
}

func TestInterface(t *testing.T) {
	_, s := startEngine(t)
	key := "Bearer " + secret.Reveal()
	for _, c := range []struct {
		method, path, authorization string
		status                      int
		code                        string
	}{
		{"GET", "/healthz", "", 200, ""},
		{"GET", "/healthz", "Bearer wrong", 200, ""},
		{"POST", "/healthz", "", 405, "method_not_allowed"},
		{"GET", "/", "", 404, "not_found"},
		{"GET", "/healthz/", "", 404, "not_found"},
		{"GET", "/internal/status", key, 200, ""},
		{"GET", "/internal/status", "bearer " + secret.Reveal(), 200, ""},
		{"DELETE", "/internal/status", key, 405, "method_not_allowed"},
		{"OPTIONS", "/internal/status", key, 405, "method_not_allowed"},
		{"GET", "/internal/runs", key, 404, "not_found"},
		{"GET", "/internal/status/", key, 404, "not_found"},
		{"GET", "/internal/status", "", 401, "engine_key_invalid"},
		{"GET", "/internal/status", "Bearer", 401, "engine_key_invalid"},
		{"GET", "/internal/status", "Bearer ", 401, "engine_key_invalid"},
		{"GET", "/internal/status", key + "x", 401, "engine_key_invalid"},
		{"GET", "/internal/status", key[:len(key)-1], 401, "engine_key_invalid"},
		{"GET", "/internal/status", "Basic " + secret.Reveal(), 401, "engine_key_invalid"},
		{"GET", "/internal/status", secret.Reveal(), 401, "engine_key_invalid"},
		{"DELETE", "/internal/status", "", 401, "engine_key_invalid"},
		{"GET", "/internal/runs", "", 401, "engine_key_invalid"},
		{"GET", "/internal/", "", 401, "engine_key_invalid"},
		{"GET", "/internal", "", 401, "engine_key_invalid"},
		{"GET", "/%69nternal/status", "", 401, "engine_key_invalid"},
		{"GET", "//internal/status", "", 404, "not_found"},
	} {
		name := c.method + " " + c.path + " " + c.authorization
		status, body, header := ask(t, s, c.method, c.path, c.authorization)
		require.Equal(t, c.status, status, name)
		if status == http.StatusOK {
			require.Equal(t, "ok", body["status"], name)
			continue
		}
		require.Equal(t, c.code, body["code"], name)
		require.NotEmpty(t, body["message"], name)
		require.Equal(t, map[string]any{}, body["details"], name)
		require.Len(t, body, 3, name)
		require.Equal(t, status == 405, header.Get("Allow") != "", name)
	}
}

func TestStatusSaysSinceWhen(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	c, s := startEngine(t)
	_, body, _ := ask(t, s, "GET", "/internal/status", "Bearer "+secret.Reveal())
	require.Equal(t, "1.2.3", body["version"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, body["startedAt"])

	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1.2.3", status.Version)
	require.WithinRange(t, status.StartedAt, before, time.Now())
	whole := Status{StartedAt: time.Date(2026, 11, 20, 23, 56, 25, 0, time.FixedZone("", 3600))}
	text, err := json.Marshal(whole)
	require.NoError(t, err)
	require.Contains(t, string(text), `"startedAt":"2026-11-20T22:56:25.000Z"`)
}

func TestClient(t *testing.T) {
	c, s := startEngine(t)
	require.NoError(t, c.Health(t.Context()))

	wrong := c
	wrong.Secret = "another secret altogether"
	require.NoError(t, wrong.Health(t.Context()), "health needs no key")
	_, err := wrong.Status(t.Context())
	require.ErrorIs(t, err, ErrKey)
	require.NotContains(t, err.Error(), "another")

	s.Close()
	require.ErrorContains(t, c.Health(t.Context()), "engine healthz: ")
	_, err = c.Status(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrKey)
}

func TestClientRefusesStrangeAnswers(t *testing.T) {
	for text, h := range map[string]http.HandlerFunc{
		"503":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"302":            func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) },
		"not the engine": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) },
		"invalid":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>`) },
	} {
		c, _ := start(t, h)
		c.HTTP = nil
		require.ErrorContains(t, c.Health(t.Context()), text)
		defaultHTTP.CloseIdleConnections()
	}
}

func TestClientKeepsToItsContext(t *testing.T) {
	entered := make(chan struct{})
	c, _ := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Health(ctx) }()
	<-entered
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestConfigReference(t *testing.T) {
	var b strings.Builder
	require.NoError(t, config.Reference(&b, Config{}))
	require.Contains(t, b.String(), "| `SVC_ENGINE_ADDR` | `:4001` |  |  |")
	require.Contains(t, b.String(), "| `SVC_ENGINE_SHARED_SECRET` |  | yes | yes |")
	require.Contains(t, b.String(), "| `SVC_LOG_LEVEL` | `info` |  |  |")
}
