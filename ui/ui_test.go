package ui

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
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
