package router_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/http/router"
)

// nameRoute answers with the name of the route and the path's parameters.
func nameRoute(route string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Method + " " + route + " " + r.PathValue("id")))
	})
}

func routes() http.Handler {
	log := slog.New(slog.DiscardHandler)
	r := router.New(router.Refuse(log, router.ErrNotFound), router.Refuse(log, router.ErrMethod))
	r.Handle(router.Route{Method: "GET", Path: "/runs/{id}", Handler: nameRoute("one")})
	r.Handle(router.Route{Method: "PATCH", Path: "/runs/{id}", Handler: nameRoute("change")})
	r.Handle(router.Route{Method: "GET", Path: "/runs/export", Limits: middleware.Limits{Stream: true}, Handler: nameRoute("export")})
	r.Handle(router.Route{Method: "GET", Path: "/page", Limits: middleware.Limits{Policy: "default-src 'self'"}, Handler: nameRoute("page")})
	return r
}

func TestRoutes(t *testing.T) {
	for asked, want := range map[string]struct {
		status      int
		body, allow string
	}{
		"GET /runs/7":        {200, "GET one 7", ""},
		"HEAD /runs/7":       {200, "GET one 7", ""}, // the server leaves out the body
		"PATCH /runs/7":      {200, "PATCH change 7", ""},
		"GET /runs/export":   {200, "GET export ", ""},
		"HEAD /runs/export":  {200, "", ""}, // a stream ends after its header
		"PATCH /runs/export": {405, "", "GET, HEAD"},
		"DELETE /runs/7":     {405, "", "GET, HEAD, PATCH"},
		"OPTIONS /runs/7":    {405, "", "GET, HEAD, PATCH"},
		"GET /runs":          {404, "", ""},
		"GET /runs/7/":       {404, "", ""},
		"GET //runs/7":       {404, "", ""},
		"GET /RUNS/7":        {404, "", ""},
		"GET /runs/a%20b":    {200, "GET one a b", ""}, // a space has to be escaped
		"GET /runs/%C3%A9":   {200, "GET one é", ""},
		"GET /runs/it's":     {200, "GET one it's", ""},
		"GET /runs/%c3%a9":   {404, "", ""},
		"GET /runs/%37":      {404, "", ""},
		"GET /%72uns/7":      {404, "", ""},
		"PATCH /runs%2F7":    {404, "", ""},
		"PATCH /runs/7%2f":   {404, "", ""},
		"GET /runs/%2e%2e":   {404, "", ""},
		"DELETE /runs/%37":   {404, "", ""},
	} {
		t.Run(asked, func(t *testing.T) {
			var counted middleware.Request
			handler := middleware.Measured(func(r middleware.Request) { counted = r }, routes())
			w := httptest.NewRecorder()
			method, path, _ := strings.Cut(asked, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
			var err error
			r.URL, err = url.ParseRequestURI(path)
			require.NoError(t, err)
			handler.ServeHTTP(w, r)
			require.Equal(t, want.status, w.Code)
			require.Equal(t, want.allow, w.Header().Get("Allow"))
			if want.status == http.StatusOK {
				require.Equal(t, want.body, w.Body.String())
				require.NotEmpty(t, counted.Route)
			} else {
				require.Empty(t, counted.Route)
			}
			require.Equal(t, "default-src 'none'; frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
		})
	}
}

func TestRoutePolicyReplacesDefault(t *testing.T) {
	w := httptest.NewRecorder()
	routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page", nil))
	require.Equal(t, "default-src 'self'", w.Header().Get("Content-Security-Policy"))
}

// Without a handler for other methods, a known path with another method is not found.
func TestUnknownMethodWithoutHandlerIsNotFound(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	r := router.New(router.Refuse(log, router.ErrNotFound), nil)
	r.Handle(router.Route{Method: "GET", Path: "/callback/:provider", Handler: nameRoute("callback")})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/callback/github", nil))
	require.Equal(t, http.StatusNotFound, w.Code)
}
