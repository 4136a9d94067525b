package middleware_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/test/journal"
)

func TestMeasuredObservesEachRequest(t *testing.T) {
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   middleware.Request
	}{
		"a route": {
			func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) },
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusTeapot},
		},
		"nothing is said": {func(http.ResponseWriter, *http.Request) {},
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusOK}},
		"a panic": {func(http.ResponseWriter, *http.Request) { panic("broken") },
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: 500, Failed: true}},
		"broken off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			middleware.Request{Method: "GET", Route: "/cups/{id}"}},
		"broken off late": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				panic(http.ErrAbortHandler)
			},
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusOK},
		},
		"failed late": {
			func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				middleware.SetFailed(r.Context())
				panic(http.ErrAbortHandler)
			},
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusOK, Failed: true},
		},
		"a late panic": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				panic("broken")
			},
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusOK, Failed: true},
		},
		"unavailable": {
			func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			middleware.Request{Method: "GET", Route: "/cups/{id}", Status: http.StatusServiceUnavailable, Failed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told []middleware.Request
			tell := func(r middleware.Request) { told = append(told, r) }
			var j journal.Log
			h := middleware.Measured(tell,
				middleware.Traced(j.Logger(), middleware.Limited(middleware.Limits{}, middleware.Routed("GET", "/cups/{id}", c.handle))))
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/cups/7", nil))
			}()
			require.Len(t, told, 1)
			require.Positive(t, told[0].Took)
			require.Less(t, told[0].Took, time.Minute)
			told[0].Took = 0
			require.Equal(t, c.want, told[0])
		})
	}
}

// A query that is cancelled because its client leaves is answered with 503, which nobody receives.
func TestAnswerToDepartedClientIsNoFailure(t *testing.T) {
	var told middleware.Request
	ctx, leave := context.WithCancel(t.Context())
	h := middleware.Measured(func(r middleware.Request) { told = r }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		leave()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/cups/7", nil))
	require.Equal(t, http.StatusServiceUnavailable, told.Status)
	require.False(t, told.Failed)
}

func TestRequestWithoutRouteHasNoLabels(t *testing.T) {
	var told middleware.Request
	h := middleware.Measured(func(r middleware.Request) { told = r }, http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("CHOSEN", "/chosen", nil))
	require.Empty(t, told.Method+told.Route)
	require.Equal(t, http.StatusNotFound, told.Status)
}

func TestSetRouteWithoutMeasuredIsIgnored(t *testing.T) {
	w := httptest.NewRecorder()
	middleware.Routed("GET", "/cups", http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/cups", nil))
	require.Equal(t, http.StatusNotFound, w.Code)
}
