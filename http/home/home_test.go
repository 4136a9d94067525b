package home_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/home"
)

func get(t *testing.T, provider, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	home.Handler(provider, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// The policy forbids the page whatever is not a file of its own, and the page
// keeps to that.
func TestThePageRunsNothingInline(t *testing.T) {
	w := get(t, "github", "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'")
	require.NotRegexp(t, regexp.MustCompile(`<script>|<style>| on[a-z]+="|style="|https?://`), w.Body.String())
	require.Contains(t, w.Body.String(), "Sign in with GitHub")
}

func TestWithoutAProviderThePageSaysSo(t *testing.T) {
	page := get(t, "", "/").Body.String()
	require.Contains(t, page, "SVC_OAUTH_CLIENT_ID")
	require.NotContains(t, page, "<button id=\"sign-in\"")
}

func TestItsFiles(t *testing.T) {
	require.Equal(t, "text/javascript; charset=utf-8", get(t, "github", "/home.js").Header().Get("Content-Type"))
	require.Equal(t, "text/css; charset=utf-8", get(t, "github", "/home.css").Header().Get("Content-Type"))
	require.Equal(t, http.StatusNotFound, get(t, "github", "/home.html").Code)
}
