package sessions

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// noon is the time at which these tests start.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A clock stands still until a test moves it.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// register registers a person, and returns them and their personal workspace.
func register(t *testing.T, db *pgxpool.Pool, slug string, emails ...string) (user, workspace events.ID) {
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	user, workspace = events.NewID(noon), events.NewID(noon)
	_, err := commands.New(log, func() time.Time { return noon }).RegisterUser(testContext(t), commands.RegisterUser{
		Meta: commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user, Name: emails[0]},
			Origin: events.FromAuth}, Workspace: workspace},
		User: user, Member: events.NewID(noon), Name: "Zoë Brandt", Emails: emails, AvatarURL: "https://code.acme.example/avatars/7",
		WorkspaceName: "Zoë's workspace", WorkspaceSlug: slug,
	})
	require.NoError(t, err)
	return user, workspace
}

// signedIn is a store with a person who has just signed in.
type signedIn struct {
	*Store
	*clock
	session         Session
	user, workspace events.ID
	cookie          string // the value that their browser holds
	said            *bytes.Buffer
}

func signIn(t *testing.T) *signedIn {
	db, clock, said := pgtest.New(t), &clock{noon}, &bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(said, nil))
	s := &signedIn{Store: &Store{DB: db, Secret: []byte("a secret of thirty-two characters"), Now: clock.now, Log: log}, clock: clock,
		said: said}
	s.user, s.workspace = register(t, db, "zoe", "zoe@acme.example")
	var err error
	s.session, err = s.Start(testContext(t), s.user, s.workspace, "192.0.2.7", "Firefox")
	require.NoError(t, err)
	s.cookie = s.Cookie(s.session).Value
	return s
}

// requireFound requires that a cookie leads to the session, and returns it.
func (s *signedIn) requireFound(t *testing.T, cookie string) (session Session, renewed bool) {
	t.Helper()
	session, renewed, ok, err := s.Find(testContext(t), cookie)
	require.NoError(t, err)
	require.True(t, ok)
	return session, renewed
}

// requireNone requires that a cookie leads to no session.
func (s *signedIn) requireNone(t *testing.T, cookie string) {
	t.Helper()
	session, renewed, ok, err := s.Find(testContext(t), cookie)
	require.NoError(t, err)
	require.False(t, ok, "%q leads to a session", cookie)
	require.False(t, renewed)
	require.Zero(t, session)
}

// plain returns a cookie's value without escapes.
func plain(t *testing.T, cookie string) string {
	value, err := url.PathUnescape(cookie)
	require.NoError(t, err)
	return value
}

// end ends sessions of the person.
func (s *signedIn) end(t *testing.T, ids ...events.ID) {
	t.Helper()
	h := s.commands(t)
	_, err := h.EndSessions(testContext(t), commands.EndSessions{Meta: by(s.user, s.workspace), Sessions: ids})
	require.NoError(t, err)
}

// commands returns a handler whose log ends sessions.
func (s *signedIn) commands(t *testing.T) *commands.Handler {
	t.Helper()
	log := store.New(s.DB, append(projections.Inline(), Endings{}), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	return commands.New(log, s.now)
}

func by(user, workspace events.ID) commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user}, Origin: events.FromAuth},
		Workspace: workspace}
}
