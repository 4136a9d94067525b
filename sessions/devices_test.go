package sessions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

const day = 24 * time.Hour

// another signs the same person in with another browser.
func (s *signedIn) another(t *testing.T, userAgent string) Session {
	t.Helper()
	session, err := s.Start(testContext(t), s.user, s.workspace, "192.0.2.8", userAgent)
	require.NoError(t, err)
	return session
}

// somebodyElse signs another person in.
func (s *signedIn) somebodyElse(t *testing.T) Session {
	t.Helper()
	user, home := register(t, s.DB, "yan", "yan@acme.example")
	session, err := s.Start(testContext(t), user, home, "192.0.2.9", "Chrome")
	require.NoError(t, err)
	return session
}

// active returns the active workspace of a session.
func (s *signedIn) active(t *testing.T, session Session) *events.ID {
	t.Helper()
	got, _ := s.requireFound(t, s.Cookie(session).Value)
	return got.Active
}

func (s *signedIn) of(t *testing.T, user events.ID) (ids []events.ID) {
	t.Helper()
	list, err := s.ForUser(testContext(t), user, 10)
	require.NoError(t, err)
	for _, session := range list {
		ids = append(ids, session.ID)
	}
	return ids
}

func TestSetActiveIsForOneBrowser(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	other := s.another(t, "Safari")
	require.NoError(t, s.UnsetActive(testContext(t), s.session))
	require.Nil(t, s.active(t, s.session))
	require.Equal(t, &s.workspace, s.active(t, other))
	s.activate(t, s.session, s.workspace)
	require.Equal(t, &s.workspace, s.active(t, s.session))
	require.NoError(t, s.Discard(testContext(t), other))
	s.activate(t, other, s.workspace)
	require.NoError(t, s.UnsetActive(testContext(t), other), "a session that has ended is no error")

	theirs := s.somebodyElse(t)
	ok, err := s.SetActive(testContext(t), s.session, *theirs.Active)
	require.NoError(t, err)
	require.False(t, ok, "they are not in it")
	require.Equal(t, &s.workspace, s.active(t, s.session))
}

// activate makes a workspace the active one of a session of a member.
func (s *signedIn) activate(t *testing.T, session Session, workspace events.ID) {
	t.Helper()
	ok, err := s.SetActive(testContext(t), session, workspace)
	require.NoError(t, err)
	require.True(t, ok)
}

// A workspace that is chosen while the person is removed from it does not stay chosen.
func TestSetActiveWaitsForARemoval(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	require.NoError(t, s.UnsetActive(testContext(t), s.session))
	removal, err := s.DB.Begin(testContext(t))
	require.NoError(t, err)
	_, err = removal.Exec(testContext(t), `delete from members where workspace_id = $1`, s.workspace)
	require.NoError(t, err)
	_, err = removal.Exec(testContext(t), `update sessions set active_workspace_id = null where user_id = $1 and active_workspace_id = $2`,
		s.user, s.workspace)
	require.NoError(t, err)
	answer := make(chan bool, 1)
	go func() {
		ok, err := s.SetActive(testContext(t), s.session, s.workspace)
		answer <- ok || err != nil
	}()
	require.Eventually(t, func() bool {
		var waiting bool
		err := s.DB.QueryRow(testContext(t),
			`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting)
		return err == nil && waiting || len(answer) > 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, removal.Commit(testContext(t)))
	require.False(t, <-answer)
	require.Nil(t, s.active(t, s.session))
}

func TestForUserListsNewestFirst(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.at = noon.Add(time.Hour)
	second := s.another(t, "Safari")
	s.at = noon.Add(2 * time.Hour)
	third := s.another(t, "Chrome")
	theirs := s.somebodyElse(t)
	require.Equal(t, []events.ID{third.ID, second.ID, s.session.ID}, s.of(t, s.user))
	require.Equal(t, []events.ID{theirs.ID}, s.of(t, theirs.User))
	require.Empty(t, s.of(t, events.NewID(noon)))

	list, err := s.ForUser(testContext(t), s.user, 10)
	require.NoError(t, err)
	require.Equal(t, [2]string{"192.0.2.8", "Chrome"}, [2]string{list[0].IP, list[0].UserAgent})
	require.Equal(t, "zoe@acme.example", list[0].Email)
	require.Empty(t, list[0].token, "a list signs nobody in")
}

// The number of sessions of a person is limited: the oldest ones end.
func TestNumberOfSessionsIsLimited(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	theirs := s.somebodyElse(t)
	var last Session
	for i := range maxSessions - 1 {
		s.at = noon.Add(time.Duration(i+1) * time.Second)
		last = s.another(t, "Safari")
	}
	s.requireFound(t, s.cookie)
	s.at = noon.Add(time.Hour)
	newest := s.another(t, "Chrome")
	s.requireNone(t, s.cookie)
	list, err := s.ForUser(testContext(t), s.user, 1000)
	require.NoError(t, err)
	require.Len(t, list, maxSessions)
	require.Equal(t, [2]events.ID{newest.ID, last.ID}, [2]events.ID{list[0].ID, list[1].ID})
	require.Equal(t, []events.ID{theirs.ID}, s.of(t, theirs.User), "those of others stay")
}

func TestForUserOmitsExpiredSessions(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.at = noon.Add(time.Second)
	second := s.another(t, "Safari")
	for at, want := range map[time.Time][]events.ID{
		noon.Add(7*day - time.Second):   {second.ID, s.session.ID},
		noon.Add(7 * day):               {second.ID},
		noon.Add(7*day + time.Second):   nil,
		noon.Add(7*day + 2*time.Second): nil,
	} {
		s.at = at
		require.Equal(t, want, s.of(t, s.user), at)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	second := s.another(t, "Safari")
	require.NoError(t, s.Discard(testContext(t), second))
	require.Equal(t, []events.ID{s.session.ID}, s.of(t, s.user))
	require.NoError(t, s.Discard(testContext(t), second), "again")
	require.Equal(t, []events.ID{s.session.ID}, s.of(t, s.user))
}
