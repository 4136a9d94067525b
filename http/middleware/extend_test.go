package middleware_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// A request that was extended keeps its id, forgets the limit of all requests,
// and still ends when its caller goes away.
func TestExtend(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	var left time.Duration
	var id string
	server := httptest.NewServer(middleware.Traced(slog.New(slog.DiscardHandler), middleware.Bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := middleware.Extend(r.Context(), w, time.Hour)
		defer done()
		at, _ := ctx.Deadline()
		left, id = time.Until(at), middleware.RequestID(ctx)
		close(begun)
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-time.After(20 * time.Second):
			ended <- nil
		}
	}))))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: req-7\r\n\r\n"))
	require.NoError(t, err)
	<-begun
	require.Greater(t, left, 59*time.Minute)
	require.Equal(t, "req-7", id)
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestExtendWithoutABound(t *testing.T) {
	outer, cancel := context.WithCancel(t.Context())
	ctx, done := middleware.Extend(outer, httptest.NewRecorder(), time.Hour)
	defer done()
	require.NoError(t, ctx.Err())
	cancel()
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
