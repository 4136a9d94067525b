package middleware_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/test/journal"
)

func TestAnswersAreSafeInABrowser(t *testing.T) {
	w := httptest.NewRecorder()
	middleware.Limited(middleware.Limits{}, http.HandlerFunc(ok)).ServeHTTP(w, get("/"))
	for name, want := range map[string]string{
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "same-origin",
		"X-Frame-Options":         "DENY",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Cache-Control":           "no-store",
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
}

// The limit applies whether the stated length is right, wrong or missing.
func TestBodyLimitIsEnforced(t *testing.T) {
	for size, ok := range map[int]bool{0: true, 16 << 10: true, 16<<10 + 1: false} {
		r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		var n int
		var err error
		middleware.Limited(middleware.Limits{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var text []byte
			text, err = io.ReadAll(r.Body)
			n = len(text)
		})).ServeHTTP(httptest.NewRecorder(), r)
		if ok {
			require.NoError(t, err)
			require.Equal(t, size, n)
			continue
		}
		_, tooLarge := errors.AsType[*http.MaxBytesError](err)
		require.True(t, tooLarge, "%v", err)
		require.LessOrEqual(t, n, 16<<10)
	}
}

func TestRequestHasDeadline(t *testing.T) {
	begin := time.Now()
	middleware.Limited(middleware.Limits{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		deadline, ok := r.Context().Deadline()
		require.True(t, ok)
		require.WithinRange(t, deadline, begin.Add(30*time.Second), time.Now().Add(30*time.Second))
	})).ServeHTTP(httptest.NewRecorder(), get("/"))
}

// The limits of a route replace the defaults, also for an upload larger than memory.
func TestRouteLimitsReplaceDefaults(t *testing.T) {
	const most = 256 << 20
	for size, fits := range map[int64]bool{most: true, most + 1: false} {
		begin := time.Now()
		w := httptest.NewRecorder()
		body := io.LimitReader(zeros{}, size)
		limits := middleware.Limits{Body: most, Time: time.Hour, Policy: "default-src 'self'"}
		middleware.Limited(limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			deadline, ok := r.Context().Deadline()
			require.True(t, ok)
			require.WithinRange(t, deadline, begin.Add(time.Hour), time.Now().Add(time.Hour))
			n, err := io.Copy(io.Discard, r.Body)
			require.EqualValues(t, most, n)
			require.Equal(t, fits, err == nil, "%v", err)
		})).ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/", body))
		require.Equal(t, "default-src 'self'", w.Header().Get("Content-Security-Policy"))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// served sends a raw request to a handler under limits, with the same middleware as in the service.
func served(t *testing.T, l middleware.Limits, sent string, handle http.HandlerFunc) (net.Conn, *journal.Log) {
	t.Helper()
	log := &journal.Log{}
	tell := func(middleware.Request) {}
	server := httptest.NewServer(middleware.Measured(tell, middleware.Traced(log.Logger(), middleware.Limited(l, handle))))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, sent)
	require.NoError(t, err)
	return conn, log
}

// A request with a long time limit still ends when the caller disconnects.
func TestLongRequestEndsWhenCallerDisconnects(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	conn, _ := served(t, middleware.Limits{Time: time.Hour, Stream: true}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			select {
			case <-r.Context().Done():
				ended <- r.Context().Err()
			case <-time.After(20 * time.Second):
				ended <- nil
			}
		})
	<-begun
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A hijacked connection reaches the handler through all middleware, has no deadlines, and is logged
// with status 101.
func TestConnectionCanBeHijacked(t *testing.T) {
	limits := middleware.Limits{Time: 50 * time.Millisecond, Hijack: true}
	conn, log := served(t, limits, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n",
		func(w http.ResponseWriter, r *http.Request) {
			taken, buffered, err := http.NewResponseController(w).Hijack()
			if !errors.Is(err, nil) {
				return
			}
			defer taken.Close()
			_, _ = taken.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"))
			<-r.Context().Done() // long enough for any deadline
			_, _ = io.CopyN(taken, buffered, 5)
		})
	lines := bufio.NewReader(conn)
	answer, err := http.ReadResponse(lines, nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	echo, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, "hello", string(echo))
	require.Eventually(t, func() bool { return len(log.Lines(t, "request")) == 1 }, time.Minute, time.Millisecond)
	require.EqualValues(t, http.StatusSwitchingProtocols, log.Line(t, "request")["status"])
}
