package auth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.config.Sessions.DB.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// refuseEvents makes appending a kind of event fail until the returned function is called.
func (s *site) refuseEvents(kind string) (mend func()) {
	s.exec(`alter table events add constraint fault check (kind <> '` + kind + `') not valid`)
	return func() { s.exec(`alter table events drop constraint fault`) }
}

func (s *site) recorded(kind string) int {
	return s.count("events where kind = '" + kind + "'")
}

// A sign-out that cannot be recorded does not happen, and keeps the cookie for a retry.
func TestFailedSignOutCanBeRetried(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for path, body := range map[string]string{
		"/sign-out": "{}", "/revoke-session": "", "/revoke-sessions": "{}",
	} {
		cookie := s.signIn()
		id := s.session(cookie)["session"]["id"].(string)
		if body == "" {
			body = `{"token":"` + id + `"}`
		}
		before := s.recorded("user.signed_out")
		mend := s.refuseEvents("user.signed_out")
		a := s.do(call{path: path, body: body, cookie: cookie})
		require.Equal(t, http.StatusInternalServerError, a.StatusCode, path)
		require.Empty(t, a.Cookies(), path)
		require.NotNil(t, s.session(cookie), path)
		mend()

		a = s.do(call{path: path, body: body, cookie: cookie})
		require.Equal(t, http.StatusOK, a.StatusCode, path)
		require.Nil(t, s.session(cookie), path)
		require.Equal(t, before+1, s.recorded("user.signed_out"), path)
	}
}

// A handle that is not of the person's session ends none, and nothing is recorded.
func TestUnknownTokenEndsNoSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie, other := s.signIn(), s.signIn()
	for _, token := range []string{
		"00000000-0000-0000-0000-000000000000", strings.Repeat("0", 32), "ffffffff-ffff-ffff-ffff-ffffffffffff", s.person.String(),
		s.home.String(), "0", "unknown",
	} {
		a := s.do(call{path: "/revoke-session", body: `{"token":"` + token + `"}`, cookie: cookie})
		require.Equal(t, http.StatusOK, a.StatusCode, token)
		require.JSONEq(t, `{"status":true}`, a.text)
		require.NotNil(t, s.session(cookie), token)
		require.NotNil(t, s.session(other), token)
	}
	require.Zero(t, s.recorded("user.signed_out"))
}

// A sign-in that cannot be recorded leaves no session behind.
func TestFailedSignInLeavesNoSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mend := s.refuseEvents("user.signed_in")
	a := s.do(call{path: "/sign-in/email", body: signInBody(email, password)})
	require.Equal(t, http.StatusInternalServerError, a.StatusCode)
	require.Empty(t, a.Cookies())
	require.Zero(t, s.count("sessions"))
	mend()
	require.NotNil(t, s.session(s.signIn()))
}
