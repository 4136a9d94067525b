package ui

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy in front of the app may rewrite Host.
func TestWritesOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	const own = "https://svc.example"
	app := sameSite("https://Svc.example:443", slog.New(slog.DiscardHandler), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, c := range map[string]struct {
		path, origin, site string
		status             int
	}{
		"a page of the app":                   {"/w/acme/members", own, "", http.StatusOK},
		"the same, with today's header":       {"/w/acme/members", own, "same-origin", http.StatusOK},
		"the host that the proxy asks":        {"/w/acme/members", "http://internal.example", "", http.StatusOK},
		"another site":                        {"/w/acme/members", "https://evil.example", "", http.StatusForbidden},
		"another site with our name":          {"/w/acme/members", own, "cross-site", http.StatusForbidden},
		"the app by HTTP":                     {"/w/acme/members", "http://svc.example", "", http.StatusForbidden},
		"a page without an origin":            {"/w/acme/members", "null", "", http.StatusForbidden},
		"what the REST service checks itself": {"/api/auth/sign-out", "https://evil.example", "", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(http.MethodPost, "http://internal.example"+c.path, nil), httptest.NewRecorder()
			r.Header.Set("Origin", c.origin)
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			app.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
		})
	}
}

// sources returns the Go files of all pages by path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	require.Greater(t, len(texts), 50)
	return texts
}

func TestEveryPageIsServed(t *testing.T) {
	t.Parallel()
	app, err := os.ReadFile("ui.go")
	require.NoError(t, err)
	for name, text := range sources(t) {
		if regexp.MustCompile(`(?m)^func Routes\(`).MatchString(text) {
			require.Contains(t, string(app), filepath.Dir(name)+".Routes(", name)
		}
	}
}

var navEntry = regexp.MustCompile(`NavEntry: ("\w+")`)

func TestEveryEntryIsInTheNavigation(t *testing.T) {
	t.Parallel()
	shell, err := os.ReadFile("page/shell.templ")
	require.NoError(t, err)
	for name, text := range sources(t) {
		for _, entry := range navEntry.FindAllStringSubmatch(text, -1) {
			require.Contains(t, string(shell), "{"+entry[1]+", ", name)
		}
	}
}
