package ui

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// The service's headers replace those of the app.
func TestForwardedResponseHasHeadersOfTheService(t *testing.T) {
	t.Parallel()
	app := newForwarder(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		h.Set("Content-Security-Policy", "style-src 'self'")
		h.Set("Cache-Control", "no-store")
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
	})
	res, err := app.Client().Get(app.URL + "/api/auth/ok")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Len(t, res.Header["X-Request-Id"], 1)
	require.NotEmpty(t, res.Header.Get("X-Request-Id"))
	require.Equal(t, []string{"style-src 'self'"}, res.Header["Content-Security-Policy"])
	require.Equal(t, []string{"no-store"}, res.Header["Cache-Control"])
	require.Equal(t, []string{"a=1", "b=2"}, res.Header["Set-Cookie"])
	require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), "which the service did not set")
}

func TestForwardedBodyHasALimit(t *testing.T) {
	t.Parallel()
	app := newForwarder(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})
	body := struct{ io.Reader }{io.LimitReader(zeros{}, 2<<20)} // of unknown length
	res, err := app.Client().Post(app.URL+"/api/auth/sign-in/email", "application/json", body)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, string(text))
	require.Contains(t, string(text), "body_too_large")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// newForwarder serves an app that forwards all requests to a service.
func newForwarder(t *testing.T, service http.HandlerFunc) *httptest.Server {
	rest := httptest.NewServer(service)
	t.Cleanup(rest.Close)
	to, err := url.Parse(rest.URL)
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	app := httptest.NewServer(middleware.Traced(quiet, forward(to, quiet)))
	t.Cleanup(app.Close)
	return app
}

func TestForwardRemovesOriginHeader(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	app := newForwarder(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL+"/api/auth/ok", nil)
	require.NoError(t, err)
	r.Header.Set("X-Svc-Origin", "ui")
	res, err := app.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NotContains(t, <-headers, "X-Svc-Origin")
}
