package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
)

// send invites an address as somebody.
func (m *team) send(t *testing.T, by person, email string, role events.Role) events.ID {
	t.Helper()
	id := newID()
	_, err := m.SendInvitation(t.Context(), commands.SendInvitation{Meta: by.in(m.id), Invitation: id, Email: email, Role: role})
	require.NoError(t, err)
	return id
}

// requireNotAcceptable requires that the invitee cannot accept an invitation through any process,
// and that it is not shown to them.
func (m *team) requireNotAcceptable(t *testing.T, invitation events.ID) {
	t.Helper()
	require.False(t, m.invitation(t, invitation).Acceptable(m.clock.now()))
	shown, err := projections.Invitations{DB: m.db}.ForAddresses(t.Context(), []string{m.nobody.email}, m.clock.now(), 10)
	require.NoError(t, err)
	require.False(t, listed(shown, invitation))
	cold, _ := m.startCountingHandler()
	for _, process := range []*commands.Handler{m.Handler, m.other.Handler, cold} {
		_, err := process.AcceptInvitation(t.Context(), accept(m.nobody, m.id, invitation))
		require.ErrorIs(t, err, aggregates.ErrInvitationNotPending)
	}
	require.NotContains(t, m.roles(t, m.id), m.nobody.user)
}

// When somebody loses the right to send an invitation, those that they have sent are
// revoked in the same append.
func TestInvitationsAreRevokedWithSendersRight(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	for name, c := range map[string]struct {
		role events.Role // of the invitation
		lose func(m *team, second person) (commands.Result, error)
	}{
		"removed": {events.Owner, func(m *team, second person) (commands.Result, error) {
			return m.other.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: second.member})
		}},
		"left": {events.Viewer, func(m *team, second person) (commands.Result, error) {
			return m.RemoveMember(t.Context(), commands.RemoveMember{Meta: second.in(m.id), Member: second.member})
		}},
		"made a Maintainer": {events.Owner, func(m *team, second person) (commands.Result, error) {
			return m.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: second.member, Role: ptr(events.Maintainer)})
		}},
		"made a Viewer": {events.Maintainer, func(m *team, second person) (commands.Result, error) {
			return m.other.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: second.member, Role: ptr(events.Viewer)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			second := newPerson("bob")
			m.add(t, second, events.Owner)
			invitation, others := m.send(t, second, m.nobody.email, c.role), m.send(t, m.owner, "x@acme.example", events.Owner)
			before := m.head(t, m.id)
			done, err := c.lose(m, second)
			require.NoError(t, err)
			require.Equal(t, before+2, done.Position, "in one append")
			added := m.history(t, m.id, before+2)
			revoked := events.InvitationRevoked{Invitation: invitation, Email: m.nobody.email, Reason: events.InviterLeft}
			require.Equal(t, []events.Event{revoked}, added)
			require.Equal(t, projections.InvitationRevoked, m.invitation(t, invitation).Status)
			require.True(t, m.invitation(t, others).Acceptable(m.clock.now()))
			m.requireNotAcceptable(t, invitation)
		})
	}
}

// Builds that revoked nothing have left pending invitations in the log.
func TestInvitationsOfEarlierBuildsEndToo(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	second := newPerson("bob")
	m.add(t, second, events.Owner)
	invitation := m.send(t, second, m.nobody.email, events.Owner)
	m.append(t, m.owner, events.MemberRemoved{Member: second.member, User: second.user, Email: second.email, Role: events.Owner})
	require.Equal(t, projections.InvitationPending, m.invitation(t, invitation).Status)
	m.requireNotAcceptable(t, invitation)

	_, err := m.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: m.owner.in(m.id), Invitation: invitation})
	require.NoError(t, err)
	_, err = m.other.AcceptInvitation(t.Context(), accept(m.nobody, m.id, invitation))
	require.NoError(t, err)
	require.Equal(t, events.Owner, m.roles(t, m.id)[m.nobody.user], "who sent it again may invite an Owner")
}

// However many invitations somebody has sent, removing them takes one append, within its
// time limit.
func TestRemovalOfSenderOfManyInvitations(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	var sent []events.Event
	for i := range 3000 {
		sent = append(sent, events.InvitationSent{
			Invitation: newID(), Email: fmt.Sprintf("%d@acme.example", i), Role: events.Viewer,
			ExpiresAt: m.clock.now().Add(lifetime + time.Duration(i)*time.Second),
		})
	}
	invitation := newID() // the first to expire, and so among those that stay pending
	sent = append(sent, events.InvitationSent{Invitation: invitation, Email: m.nobody.email, Role: events.Viewer,
		ExpiresAt: m.clock.now().Add(time.Hour)})
	m.append(t, m.maintainer, sent...)
	before := m.head(t, m.id)
	start := time.Now()
	done, err := m.RemoveMember(t.Context(), commands.RemoveMember{Meta: m.owner.in(m.id), Member: m.maintainer.member})
	t.Log("removed in", time.Since(start))
	require.NoError(t, err)
	require.Equal(t, before+1001, done.Position)
	require.Equal(t, projections.InvitationPending, m.invitation(t, invitation).Status)
	m.requireNotAcceptable(t, invitation)
}
