package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func start(t *testing.T, h http.Handler) Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := config.ParseURL(s.URL)
	require.NoError(t, err)
	return Client{URL: u, Secret: "a shared secret of the test", HTTP: s.Client()}
}

func TestStatusHasMilliseconds(t *testing.T) {
	whole := Status{StartedAt: time.Date(2026, 11, 20, 23, 56, 25, 0, time.FixedZone("", 3600))}
	text, err := json.Marshal(whole)
	require.NoError(t, err)
	require.Contains(t, string(text), `"startedAt":"2026-11-20T22:56:25.000Z"`)
}

func TestClientRefusesStrangeAnswers(t *testing.T) {
	for text, h := range map[string]http.HandlerFunc{
		"503":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"302":            func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) },
		"not the engine": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) },
		"invalid":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>`) },
	} {
		c := start(t, h)
		c.HTTP = nil
		require.ErrorContains(t, c.Health(t.Context()), text)
		defaultHTTP.CloseIdleConnections()
	}
}

func TestClientRespectsContext(t *testing.T) {
	entered := make(chan struct{})
	c := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
