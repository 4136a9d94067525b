package sessions

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
)

func TestSessionsEndWithTheirEvent(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	theirs := s.somebodyElse(t)
	second, third := s.another(t, "Safari"), s.another(t, "Chrome")

	s.end(t, theirs.ID, events.NewID(noon), events.ID{})
	require.Len(t, s.of(t, s.user), 3, "somebody else's, none, and no id end nothing")
	s.requireFound(t, s.Cookie(theirs).Value)

	s.end(t, second.ID, third.ID)
	s.requireNone(t, s.Cookie(second).Value)
	s.requireNone(t, s.Cookie(third).Value)
	s.requireFound(t, s.cookie)
}

// The event and the end of the session are stored together or not at all.
func TestSessionContinuesIfEndIsNotStored(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	h := s.commands(t)
	end := commands.EndSessions{Meta: by(s.user, s.workspace), Sessions: []events.ID{s.session.ID}}
	recorded := func() (n int) {
		require.NoError(t, s.DB.QueryRow(testContext(t), `select count(*) from events where kind = 'user.signed_out'`).Scan(&n))
		return n
	}
	for name, fault := range map[string]string{
		"the event": `alter table events add constraint fault check (kind <> 'user.signed_out') not valid`,
		"the session": `create function fault() returns trigger language plpgsql
			as 'begin raise exception ''fault''; end'; create trigger fault before delete on sessions for each row execute function fault()`,
	} {
		s.exec(t, fault)
		_, err := h.EndSessions(testContext(t), end)
		require.ErrorContains(t, err, "fault", name)
		s.requireFound(t, s.cookie)
		require.Zero(t, recorded())
		s.exec(t, `alter table events drop constraint if exists fault; drop trigger if exists fault on sessions; drop function if exists fault`)
	}
	_, err := h.EndSessions(testContext(t), end)
	require.NoError(t, err)
	s.requireNone(t, s.cookie)
	require.Equal(t, 1, recorded())
}

func (s *signedIn) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := s.DB.Exec(testContext(t), sql)
	require.NoError(t, err)
}

// After somebody has left a workspace in any way, none of their sessions has it as the
// active one.
func TestActiveWorkspaceIsClearedAfterLeaving(t *testing.T) {
	t.Parallel()
	s := signIn(t)
	h := s.commands(t)
	owner := s.somebodyElse(t)
	second, third := s.another(t, "Safari"), s.another(t, "Chrome")
	for name, leaves := range map[string]bool{"removed": false, "left": true} {
		acme, member := events.NewID(noon), events.NewID(noon)
		_, err := h.CreateWorkspace(testContext(t), commands.CreateWorkspace{
			Meta: by(owner.User, acme), Member: events.NewID(noon), Email: owner.Email, Name: "Acme", Slug: "acme-" + name,
		})
		require.NoError(t, err)
		_, err = h.AddMember(testContext(t),
			commands.AddMember{Meta: by(owner.User, acme), Member: member, User: s.user, Email: "zoe@acme.example", Role: events.Viewer})
		require.NoError(t, err)
		for _, session := range []Session{s.session, second, owner} {
			s.activate(t, session, acme)
		}
		remove := commands.RemoveMember{Meta: by(owner.User, acme), Member: member}
		if leaves {
			remove.Meta = by(s.user, acme)
		}
		_, err = h.RemoveMember(testContext(t), remove)
		require.NoError(t, err)
		require.Nil(t, s.active(t, s.session), name)
		require.Nil(t, s.active(t, second), name)
		require.Equal(t, &s.workspace, s.active(t, third), "which was elsewhere")
		require.Equal(t, &acme, s.active(t, owner), "who is still in it")
		again, err := s.Start(testContext(t), s.user, acme, "", "")
		require.NoError(t, err)
		require.Nil(t, again.Active, "nor does a new sign-in make it active")
	}
}
