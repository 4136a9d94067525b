package middleware_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

func TestBoundedAnswersAreSafeInABrowser(t *testing.T) {
	w := httptest.NewRecorder()
	middleware.Bounded(http.HandlerFunc(ok)).ServeHTTP(w, get("/"))
	for name, want := range map[string]string{
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
		"X-Frame-Options":         "DENY",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Cache-Control":           "no-store",
	} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
}

// The length that a request states may be a lie, or be missing.
func TestBoundedBodyEndsAtItsLimit(t *testing.T) {
	for size, ok := range map[int]bool{0: true, 1 << 20: true, 1<<20 + 1: false} {
		r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		var n int
		var err error
		middleware.Bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
		require.LessOrEqual(t, n, 1<<20)
	}
}

func TestBoundedRequestHasADeadline(t *testing.T) {
	begin := time.Now()
	middleware.Bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		deadline, ok := r.Context().Deadline()
		require.True(t, ok)
		require.WithinRange(t, deadline, begin.Add(30*time.Second), time.Now().Add(30*time.Second))
	})).ServeHTTP(httptest.NewRecorder(), get("/"))
}
