//go:build linux && !race

package run

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBrowserSignsInThroughCodeHost follows the redirects of a sign-in as in production, but at the
// code host that make run starts.
func TestBrowserSignsInThroughCodeHost(t *testing.T) {
	t.Parallel()
	s := newSeededInstallation(t)
	svc := s.start().waitForOutput(runningBanner)
	d := s.dev()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, Timeout: waitLimit}
	text := func(res *http.Response, err error) string {
		t.Helper()
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, string(body))
		return string(body)
	}
	wanted := d.AppURL + "/w/acme/members?q=mia"
	res, err := browser.Get(wanted)
	require.Contains(t, text(res, err), "Continue with GitHub", "a visitor is asked to sign in")

	res, err = browser.Get(d.AppURL + "/sign-in/github?to=" + url.QueryEscape("/w/acme/members?q=mia"))
	require.Contains(t, text(res, err), "Ada Lind", "the code host asks who signs in")
	res, err = browser.PostForm(res.Request.URL.String(), url.Values{"login": {"ada"}})
	page := text(res, err)
	require.Equal(t, wanted, res.Request.URL.String(), "the sign-in returns to the deep link")
	require.Contains(t, page, "mia@acme.example")
	require.NotContains(t, page, "ben@acme.example")

	var session struct{ User struct{ Name, Email string } }
	require.NoError(t, json.Unmarshal([]byte(text(browser.Get(d.AppURL+"/api/auth/get-session"))), &session))
	require.Equal(t, "Ada Lind", session.User.Name)
	require.Equal(t, "ada@acme.example", session.User.Email)
	res, err = browser.Get(d.RestURL + "/")
	text(res, err)
	require.Equal(t, d.AppURL+"/w", res.Request.URL.String(), "the REST service redirects to the app")
	mine, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.RestURL+"/api/v1/members?limit=1", nil)
	require.NoError(t, err)
	mine.Header.Set("X-Svc-Tenant", "acme")
	require.Contains(t, text(browser.Do(mine)), `"items"`, "the session is of the member of the workspace")
	requireNoSecret(t, s, s.stop(svc))
}
