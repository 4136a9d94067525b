package sessions

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/pgtest"
)

func TestStartedSessionIsFound(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	got, renewed := s.requireFound(t, s.cookie)
	require.False(t, renewed)
	require.Equal(t, s.session, got)

	require.False(t, got.ID.IsZero())
	require.Equal(t, s.user, got.User)
	require.Equal(t, "Zoë Brandt", got.Name)
	require.Equal(t, "zoe@acme.example", got.Email)
	require.Equal(t, "https://code.acme.example/avatars/7", got.AvatarURL)
	require.Equal(t, s.workspace, *got.Active)
	require.Equal(t, "192.0.2.7", got.IP)
	require.Equal(t, "Firefox", got.UserAgent)
	require.WithinDuration(t, noon, got.RegisteredAt, 0)
	require.WithinDuration(t, noon, got.CreatedAt, 0)
	require.WithinDuration(t, noon, got.UpdatedAt, 0)
	require.WithinDuration(t, noon.Add(7*24*time.Hour), got.ExpiresAt, 0)
}

// The membership is read with each lookup, and never cached.
func TestSessionComesWithThePersonsPlaceInTheActiveWorkspace(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	got, _ := s.requireFound(t, s.cookie)
	require.NotNil(t, got.Member)
	require.Equal(t, "zoe", got.Member.Slug)
	require.Equal(t, events.Owner, got.Member.Role)
	require.Nil(t, got.Member.ApproveLoops)
	require.False(t, got.Member.ID.IsZero())

	_, elsewhere := register(t, s.DB, "ann", "ann@acme.example")
	s.exec(t, `update sessions set active_workspace_id = '`+elsewhere.String()+`'`)
	got, _ = s.requireFound(t, s.cookie)
	require.Equal(t, elsewhere, *got.Active)
	require.Nil(t, got.Member, "they are not in it")

	s.activate(t, got, s.workspace)
	got, _ = s.requireFound(t, s.cookie)
	require.NotNil(t, got.Member)
	_, err := s.DB.Exec(testContext(t), `delete from members where workspace_id = $1`, s.workspace)
	require.NoError(t, err)
	got, _ = s.requireFound(t, s.cookie)
	require.Nil(t, got.Member, "not any more")
}

func TestEachBrowserHasItsOwnSession(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	other, err := s.Start(testContext(t), s.user, s.workspace, "192.0.2.8", "Safari")
	require.NoError(t, err)
	require.NotEqual(t, s.session.ID, other.ID)
	require.NotEqual(t, s.cookie, s.Cookie(other).Value)
	s.end(t, s.session.ID)
	got, _ := s.requireFound(t, s.Cookie(other).Value)
	require.Equal(t, other.ID, got.ID)
}

func TestUnknownPersonGetsNoSession(t *testing.T) {
	t.Parallel()
	s := &Store{DB: pgtest.New(t), Secret: []byte("secret"), Now: time.Now}
	_, err := s.Start(testContext(t), events.NewID(noon), events.NewID(noon), "", "")
	require.ErrorContains(t, err, "no such person")
}

func TestEndedSessionIsNotFound(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.end(t, s.session.ID)
	s.requireNone(t, s.cookie)
	s.end(t, s.session.ID) // ending it again is no error
}

func TestSessionEndsToTheSecond(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	end := noon.Add(7 * day)
	for _, at := range []time.Time{end.Add(time.Second), end} {
		s.at = at
		s.requireNone(t, s.cookie)
	}
	s.at = end.Add(-time.Second)
	_, renewed := s.requireFound(t, s.cookie)
	require.True(t, renewed)
	for _, at := range []time.Time{s.at.Add(7*day + time.Second), s.at.Add(7 * day)} { // its eighth day is over for the second, too
		s.at = at
		s.requireNone(t, s.cookie)
	}
	s.at = s.at.Add(-time.Second)
	s.requireFound(t, s.cookie)
}

func TestSessionIsExtendedOnceADay(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.at = noon.Add(day)
	got, renewed := s.requireFound(t, s.cookie)
	require.False(t, renewed, "a day is not more than a day")
	require.WithinDuration(t, noon.Add(7*day), got.ExpiresAt, 0)

	s.at = noon.Add(day + time.Second)
	got, renewed = s.requireFound(t, s.cookie)
	require.True(t, renewed)
	require.WithinDuration(t, s.at.Add(7*day), got.ExpiresAt, 0)
	require.WithinDuration(t, s.at, got.UpdatedAt, 0)
	require.Equal(t, s.cookie, s.Cookie(got).Value, "the token stays")
	require.Equal(t, 7*24*60*60, s.Cookie(got).MaxAge)

	again, renewed := s.requireFound(t, s.cookie)
	require.False(t, renewed, "it has just been")
	require.True(t, got.ExpiresAt.Equal(again.ExpiresAt), "the database has it")
	require.True(t, got.UpdatedAt.Equal(again.UpdatedAt))

	s.at = noon.Add(8 * day)
	s.requireFound(t, s.cookie) // beyond its first expiry
}

func TestSessionNobodyUsesIsNotExtended(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	s.at = noon.Add(7*24*time.Hour + time.Second)
	s.requireNone(t, s.cookie)
	s.at = noon
	got, _ := s.requireFound(t, s.cookie)
	require.WithinDuration(t, noon.Add(7*24*time.Hour), got.ExpiresAt, 0)
}

// Reading the table is not enough to sign in.
func TestTableHasTheHashAndNotTheToken(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	token, _, ok := strings.Cut(plain(t, s.cookie), ".")
	require.True(t, ok)
	require.GreaterOrEqual(t, len(token), 32)

	var hash []byte
	var row string
	require.NoError(t, s.DB.QueryRow(testContext(t), `select token_hash, sessions::text from sessions`).Scan(&hash, &row))
	want := sha256.Sum256([]byte(token))
	require.Equal(t, want[:], hash)
	require.NotContains(t, row, token)
	require.NotContains(t, row, s.cookie)
}
