package auth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Lists are bounded, and lists of invitations have only pending and expired ones.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	s.exec(`
		insert into invitations
		select $1, gen_random_uuid(), status || n || '@acme.example', 'Viewer', status, $2, 'zoe', now() + n * interval '1 second',
			now() + case n % 2 when 0 then interval '-1 hour' else '1 hour' end
		from generate_series(1, 150) n, unnest(array['pending', 'accepted', 'rejected', 'revoked']) status`, s.home, s.person)
	want := make([]string, 100) // the newest, the oldest first, expired ones too
	for i := range want {
		want[i] = fmt.Sprintf("pending%d@acme.example", 51+i)
	}
	type invitations []struct{ Email, Status string }
	emailsOf := func(list invitations) (emails []string) {
		for _, i := range list {
			require.Equal(t, "pending", i.Status)
			emails = append(emails, i.Email)
		}
		return emails
	}
	var listed invitations
	s.get(cookie, "/organization/list-invitations?organizationId="+s.home.String(), &listed)
	require.Equal(t, want, emailsOf(listed))
	var full struct{ Invitations invitations }
	s.get(cookie, "/organization/get-full-organization?organizationId="+s.home.String(), &full)
	require.Equal(t, want, emailsOf(full.Invitations))

	s.exec(`
		with made as (insert into workspaces select gen_random_uuid(), 'Acme', 'acme' || n, now() from generate_series(1, 1100) n
			returning workspace_id),
			joined as (insert into members select workspace_id, gen_random_uuid(), $1, 'zoe', 'Owner', null, now(), 'Zoe', 'zoe' from made)
		insert into invitations
		select workspace_id, gen_random_uuid(), $2, 'Viewer', 'pending', $1, 'zoe', now() + row_number() over () * interval '1 second',
			now() + interval '1 day' from made`, s.person, email)
	for path, most := range map[string]int{"/organization/list": 1000, "/organization/list-user-invitations": 1000} {
		var list []json.RawMessage
		s.get(cookie, path, &list)
		require.Len(t, list, most, path)
	}
	var mine []struct{ CreatedAt time.Time }
	s.get(cookie, "/organization/list-user-invitations", &mine)
	for i, sent := range mine[1:] {
		require.True(t, sent.CreatedAt.Before(mine[i].CreatedAt), "the newest first")
	}
	var newest time.Time
	require.NoError(t, s.config.Sessions.DB.QueryRow(t.Context(), `select max(sent_at) from invitations where email = $1`,
		email).Scan(&newest))
	require.WithinDuration(t, newest, mine[0].CreatedAt, time.Millisecond, "older invitations do not hide it")

	for range 150 {
		_, err := s.config.Sessions.Start(t.Context(), s.person, s.home, "", "")
		require.NoError(t, err)
	}
	cookie = s.signIn()
	var sessions []json.RawMessage
	s.get(cookie, "/list-sessions", &sessions)
	require.Len(t, sessions, 100)
}

// get requests a path and decodes the JSON answer.
func (s *site) get(cookie *http.Cookie, path string, into any) {
	s.t.Helper()
	a := s.do(call{path: path, cookie: cookie})
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	require.NoError(s.t, json.Unmarshal([]byte(a.text), into), a.text)
}
