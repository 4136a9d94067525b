package auth_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// After each of these commands a client can wait until views include it.
func TestSessionCommandsReturnPosition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	doAtHead := func(c call) *http.Cookie {
		t.Helper()
		a := s.do(c)
		require.Equal(t, http.StatusOK, a.StatusCode, a.text)
		var head string
		require.NoError(t, s.config.Sessions.DB.QueryRow(t.Context(), `select head::text from logs where workspace_id = $1`, s.home).Scan(&head))
		require.Equal(t, head, a.Header.Get("X-Svc-Position"), c.path)
		if len(a.Cookies()) > 0 {
			return a.cookie()
		}
		return nil
	}
	signIn := call{path: "/sign-in/email", body: signInBody(email, password)}
	doAtHead(signIn)
	for path, body := range map[string]string{
		"/sign-out": "{}", "/revoke-session": "", "/revoke-sessions": "{}", "/revoke-other-sessions": "{}",
	} {
		cookie := doAtHead(signIn)
		if body == "" {
			body = `{"token":"` + s.session(cookie)["session"]["token"].(string) + `"}`
		}
		doAtHead(call{path: path, body: body, cookie: cookie})
	}
	require.Empty(t, s.do(call{path: "/sign-out", body: "{}"}).Header.Get("X-Svc-Position"), "nobody was signed in")
}
