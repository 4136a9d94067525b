package middleware_test

import (
	"net/http"
	"net/http/httptest"

	"svc/http/middleware"
	"svc/http/reply"
	"svc/test/journal"
)

const token = "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUVabcdef"

// serve serves a request with a traced handler.
func serve(j *journal.Log, r *http.Request, handle http.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	middleware.Traced(j.Logger(), handle).ServeHTTP(w, r)
	return w
}

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func ok(w http.ResponseWriter, _ *http.Request) { reply.JSON(w, http.StatusOK, map[string]int{"n": 7}) }
