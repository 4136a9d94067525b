//go:build linux && !race

package run

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A person signs in as in production, but at the code host that make run starts:
// the service sends them there, they say who they are, and come back signed in.
func TestABrowserSignsInByTheCodeHost(t *testing.T) {
	t.Parallel()
	s := seededSite(t)
	svc := s.start().until(running)
	d := s.dev()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, Timeout: patience}
	text := func(res *http.Response, err error) string {
		t.Helper()
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, string(body))
		return string(body)
	}
	require.Contains(t, text(browser.Get(d.RestURL+"/")), "Sign in with GitHub")

	var begun struct{ URL string }
	answer := text(browser.Post(d.RestURL+"/api/auth/sign-in/social", "application/json", strings.NewReader(`{"provider":"github","callbackURL":"/"}`)))
	require.NoError(t, json.Unmarshal([]byte(answer), &begun))
	require.Contains(t, text(browser.Get(begun.URL)), "Ada Lind")
	res, err := browser.PostForm(begun.URL, url.Values{"login": {"ada"}})
	require.Contains(t, text(res, err), "Workspace Service")
	require.Equal(t, d.RestURL+"/", res.Request.URL.String(), "the way leads back")

	var session struct{ User struct{ Name, Email string } }
	require.NoError(t, json.Unmarshal([]byte(text(browser.Get(d.RestURL+"/api/auth/get-session"))), &session))
	require.Equal(t, "Ada Lind", session.User.Name)
	require.Equal(t, "ada@acme.example", session.User.Email)
	mine, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.RestURL+"/api/v1/members?limit=1", nil)
	require.NoError(t, err)
	mine.Header.Set("X-Svc-Tenant", "acme")
	require.Contains(t, text(browser.Do(mine)), `"items"`, "who comes by the code host is who the workspace knows")
	requireNoSecret(t, s, s.stop(svc))
}
