package asset

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// What a first visit loads stays small.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := New()
	scripts := s.Size("htmx.js") + s.Size("app.js") + s.Size("live.js")
	require.LessOrEqual(t, scripts, 20<<10, "bytes of scripts")
	require.LessOrEqual(t, s.Size("app.css"), 30<<10, "bytes of style")
}

func TestFilesMayBeKeptForEver(t *testing.T) {
	t.Parallel()
	s, mux := New(), http.NewServeMux()
	s.Mount(func(method, path string, _ middleware.Limits, handler http.Handler) {
		mux.Handle(method+" "+path, handler)
	})
	for name, f := range s.files {
		r := httptest.NewRequest(http.MethodGet, s.URL(name), nil)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		require.Equal(t, f.text, w.Body.Bytes(), name)
		r.Header.Set("Accept-Encoding", "gzip, br")
		w = httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		require.Equal(t, s.Size(name), w.Body.Len(), name)
	}
	require.Panics(t, func() { s.URL("nothing.css") })
}

// A style names fonts by the addresses that they have, and nothing of another site.
func TestStyleNamesOwnFiles(t *testing.T) {
	t.Parallel()
	text := string(New().files["app.css"].text)
	require.NotContains(t, text, "asset(")
	require.NotContains(t, text, "//")
	require.Equal(t, 2, strings.Count(text, "url(/assets/inter-"))
}

// A class that two pages give a form has both of them on each: all of it is one sheet.
func TestPagesShareNoClass(t *testing.T) {
	t.Parallel()
	formed, by := regexp.MustCompile(`(?m)^  \.([a-z-]+) \{`), map[string]string{}
	for _, name := range glob("css/50-*.css") {
		for _, found := range formed.FindAllStringSubmatch(string(read(name)), -1) {
			if by[found[1]] == "" {
				by[found[1]] = name
			}
			require.Equal(t, by[found[1]], name, ".%s is also of %s", found[1], by[found[1]])
		}
	}
	require.NotEmpty(t, by)
}
