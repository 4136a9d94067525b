package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/sessions"
)

// Whatever else a person can repeat in their workspaces has one limit for all of it.
func TestDailyLimitOfChanges(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner := m.connectRunner(t, 0)
	n := 0
	changes := map[string]func(r replica, by person) error{
		"rename": func(r replica, by person) error {
			n++
			_, err := r.RenameWorkspace(t.Context(), commands.RenameWorkspace{Meta: by.in(m.id), Name: new(fmt.Sprint("Acme ", n))})
			return err
		},
		"role": func(r replica, by person) error {
			role := events.Maintainer
			if m.roles(t, m.id)[m.viewer.user] == role {
				role = events.Viewer
			}
			_, err := r.UpdateMember(t.Context(), commands.UpdateMember{Meta: by.in(m.id), Member: m.viewer.member, Role: &role})
			return err
		},
		"secret": func(r replica, by person) error {
			_, _, err := r.SetFarmSecret(t.Context(), commands.SetFarmSecret{Meta: by.in(m.id), Name: "TOKEN", Value: newID()})
			return err
		},
		"issue": func(r replica, by person) error {
			issue := m.issue("again")
			issue.Meta = by.in(m.id)
			_, err := r.QueueIssue(t.Context(), issue)
			return err
		},
		"drain": func(r replica, by person) error {
			n++
			_, err := r.DrainRunner(t.Context(), commands.DrainRunner{Meta: by.in(m.id), Runner: runner, Note: fmt.Sprint("again ", n)})
			return err
		},
		"resume": func(r replica, by person) error {
			_, err := r.ResumeRunner(t.Context(), commands.ResumeRunner{Meta: by.in(m.id), Runner: runner})
			return err
		},
		"export": func(r replica, by person) error {
			_, err := r.ExportAudit(t.Context(), commands.ExportAudit{Meta: by.in(m.id), Format: "csv", UpTo: 1})
			return err
		},
	}
	for _, r := range []replica{m.replica, m.other} {
		r.Limit(commands.Daily{Changes: len(changes), Counts: sessions.Daily{DB: m.db}})
	}
	for _, name := range []string{"rename", "role", "secret", "issue", "drain", "resume", "export"} {
		require.NoError(t, changes[name](m.replica, m.owner), name)
	}
	require.NoError(t, changes["resume"](m.other, m.owner), "there is nothing to resume, so it counts for nothing")
	require.NoError(t, changes["drain"](m.other, m.maintainer), "another person")
	for name, change := range changes {
		before := m.head(t, m.id)
		requireWait(t, change(m.other, m.owner), 12*time.Hour)
		require.Equal(t, before, m.head(t, m.id), name)
	}
	_, _, err := m.RemoveFarmSecret(t.Context(), commands.RemoveFarmSecret{Meta: m.owner.in(m.id), Name: "TOKEN"})
	require.NoError(t, err, "whoever may change no more may still take back")
	_, err = m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.viewer.member})
	require.NoError(t, err)
	m.clock.move(12 * time.Hour)
	require.NoError(t, changes["rename"](m.replica, m.owner), "a new day")
}

// Each sign-in is an event, as is each change of the profile with which somebody signs in.
func TestDailyLimitOfSignIns(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann, err := s.signedIn(t, s.replica, "github", "1", "ann", "ann@acme.example")
	require.NoError(t, err)
	for _, r := range []replica{s.replica, s.other} {
		r.Limit(commands.Daily{SignIns: 3, Counts: sessions.Daily{DB: s.db}})
	}
	session := newID()
	record := func(r replica) error {
		_, err := r.RecordSignIn(t.Context(), commands.RecordSignIn{Meta: ann.Meta, Email: "ann@acme.example", Session: session})
		return err
	}
	require.NoError(t, record(s.replica))
	require.NoError(t, record(s.other))
	_, err = s.signedIn(t, s.replica, "github", "1", "ann", "ann@home.example")
	require.NoError(t, err)
	before := s.head(t, ann.Home)
	_, err = s.signedIn(t, s.other, "github", "1", "ann", "ann@acme.example")
	requireWait(t, err, 12*time.Hour)
	requireWait(t, record(s.replica), 12*time.Hour)
	require.Equal(t, before, s.head(t, ann.Home))
	_, err = s.EndSessions(t.Context(), commands.EndSessions{Meta: ann.Meta, Sessions: []events.ID{session}})
	require.NoError(t, err, "whoever may sign in no more may still sign out")
	bob, err := s.signedIn(t, s.replica, "github", "2", "bob", "bob@acme.example")
	require.NoError(t, err)
	require.True(t, bob.New, "another person")
	s.clock.move(12 * time.Hour)
	require.NoError(t, record(s.replica), "a new day")
}
