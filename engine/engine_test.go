package engine

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/engine/client"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const secret = config.Secret("a shared secret of the test")

func startEngine(t *testing.T) (client.Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(NewHandler(secret, "1.2.3", nil, slog.New(slog.DiscardHandler)))
	t.Cleanup(s.Close)
	u, err := config.ParseURL(s.URL)
	require.NoError(t, err)
	return client.Client{URL: u, Secret: secret, HTTP: s.Client()}, s
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

func TestHealthIsOpenAndOtherRoutesNeedTheKey(t *testing.T) {
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

func TestStatusHasStartTime(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	c, s := startEngine(t)
	_, body, _ := ask(t, s, "GET", "/internal/status", "Bearer "+secret.Reveal())
	require.Equal(t, "1.2.3", body["version"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, body["startedAt"])

	status, err := c.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1.2.3", status.Version)
	require.WithinRange(t, status.StartedAt, before, time.Now())
}

func TestClientTellsAWrongKeyFromAnOutage(t *testing.T) {
	c, s := startEngine(t)
	require.NoError(t, c.Health(t.Context()))

	wrong := c
	wrong.Secret = "another secret altogether"
	require.NoError(t, wrong.Health(t.Context()), "health needs no key")
	_, err := wrong.Status(t.Context())
	require.ErrorIs(t, err, client.ErrKey)
	require.NotContains(t, err.Error(), "another")

	s.Close()
	require.ErrorContains(t, c.Health(t.Context()), "engine healthz: ")
	_, err = c.Status(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, client.ErrKey)
}

func TestConfigReference(t *testing.T) {
	var b strings.Builder
	require.NoError(t, config.Reference(&b, Config{}))
	require.Contains(t, b.String(), "| `SVC_ENGINE_ADDR` | `:4001` |  |  |")
	require.Contains(t, b.String(), "| `SVC_ENGINE_SHARED_SECRET` |  | yes | yes |")
	require.Contains(t, b.String(), "| `SVC_LOG_LEVEL` | `info` |  |  |")
}
