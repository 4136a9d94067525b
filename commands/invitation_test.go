package commands_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
)

const lifetime = 48 * time.Hour

// invite invites an address, as the Owner.
func (m *team) invite(t *testing.T, email string, role events.Role) events.ID {
	t.Helper()
	c := commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: newID(), Email: email, Role: role}
	_, err := m.SendInvitation(t.Context(), c)
	require.NoError(t, err)
	return c.Invitation
}

func accept(by person, workspace, invitation events.ID) commands.AcceptInvitation {
	return commands.AcceptInvitation{Meta: by.in(workspace), Invitation: invitation, Member: by.member, Name: "Nemo",
		Emails: []string{by.email}}
}

func reject(by person, workspace, invitation events.ID) commands.RejectInvitation {
	return commands.RejectInvitation{Meta: by.in(workspace), Invitation: invitation, Emails: []string{by.email}}
}

// invitation returns an invitation's row in the view.
func (m *team) invitation(t *testing.T, id events.ID) projections.Invitation {
	t.Helper()
	i, ok, err := projections.Invitations{DB: m.db}.Get(t.Context(), m.id, id)
	require.NoError(t, err)
	require.True(t, ok)
	return i
}

func TestInvitationLifecycle(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	send := commands.SendInvitation{Meta: m.maintainer.in(m.id), Invitation: newID(), Email: "Nemo@ACME.example", Role: events.Maintainer}
	done, err := m.SendInvitation(t.Context(), send)
	require.NoError(t, err)
	require.Equal(t, before+1, done.Position)
	workspace, owner, err := m.log.Holder(t.Context(), events.InvitationKey(send.Invitation))
	require.NoError(t, err)
	require.Equal(t, [2]events.ID{m.id, send.Invitation}, [2]events.ID{workspace, owner}, "its workspace is found by it")
	require.Equal(t, projections.InvitationPending, m.invitation(t, send.Invitation).Status)

	m.clock.move(time.Hour)
	_, err = m.other.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: m.owner.in(m.id), Invitation: send.Invitation})
	require.NoError(t, err)
	done, err = m.AcceptInvitation(t.Context(), accept(m.nobody, m.id, send.Invitation))
	require.NoError(t, err)
	require.Equal(t, before+4, done.Position)
	m.requireAdded(t, m.id, before,
		events.InvitationSent{Invitation: send.Invitation, Email: "nemo@acme.example", Role: events.Maintainer, ExpiresAt: epoch.Add(lifetime)},
		events.InvitationResent{Invitation: send.Invitation, Email: "nemo@acme.example", ExpiresAt: epoch.Add(time.Hour + lifetime)},
		events.InvitationAccepted{Invitation: send.Invitation, Email: "nemo@acme.example", User: m.nobody.user},
		events.MemberJoined{Member: m.nobody.member, User: m.nobody.user, Email: "nemo@acme.example", Name: "Nemo", Role: events.Maintainer})
	require.Equal(t, events.Maintainer, m.roles(t, m.id)[m.nobody.user])

	i := m.invitation(t, send.Invitation)
	require.Equal(t, projections.InvitationAccepted, i.Status)
	require.Equal(t, [2]any{m.owner.user, m.owner.email}, [2]any{i.Inviter, i.InviterName}, "who sent it again")
	require.WithinDuration(t, epoch, i.SentAt, 0)
	require.WithinDuration(t, epoch.Add(time.Hour+lifetime), i.ExpiresAt, 0)
}

func TestInvitationToVerifiedAddressOfMemberIsRefused(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	register := newRegistration("nora", "nora@home.example", "nora@acme.example")
	_, err := m.RegisterUser(t.Context(), register)
	require.NoError(t, err)
	m.add(t, person{register.User, newID(), "nora@home.example"}, events.Viewer)
	_, err = m.SendInvitation(t.Context(),
		commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: newID(), Email: "Nora@acme.example", Role: events.Viewer})
	require.ErrorIs(t, err, aggregates.ErrAlreadyMember)
}

func TestInvitationWithIdempotencyKeyIsSentOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	before := m.head(t, m.id)
	send := func() commands.SendInvitation {
		return commands.SendInvitation{Meta: keyed(m.owner.in(m.id), "k1"), Invitation: newID(), Email: m.nobody.email, Role: events.Viewer}
	}
	first := send()
	_, err := m.SendInvitation(t.Context(), first)
	require.NoError(t, err)
	again, err := m.other.SendInvitation(t.Context(), send())
	require.NoError(t, err)
	require.True(t, again.Replayed)
	var answer commands.InvitationAnswer
	require.NoError(t, json.Unmarshal(again.Answer, &answer))
	require.Equal(t, first.Invitation, answer.Invitation)
	require.Len(t, m.records(t, m.id, before+1), 1)
}

// An invitation expires after 48 hours, to the second, whichever process checks it.
func TestInvitationExpiresToTheSecond(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	for name, test := range map[string]struct {
		at      time.Duration
		resent  time.Duration // when it is sent again; never if zero
		refusal error
	}{
		"a second before":                  {at: lifetime - time.Second},
		"a microsecond before":             {at: lifetime - time.Microsecond},
		"at the end":                       {at: lifetime, refusal: aggregates.ErrInvitationNotPending},
		"a second after":                   {at: lifetime + time.Second, refusal: aggregates.ErrInvitationNotPending},
		"sent again, a second before":      {at: time.Hour + lifetime - time.Second, resent: time.Hour},
		"sent again, at the end":           {at: time.Hour + lifetime, resent: time.Hour, refusal: aggregates.ErrInvitationNotPending},
		"sent again late, a second before": {at: 3*lifetime - time.Second, resent: 2 * lifetime},
		"sent again late, a second after":  {at: 3*lifetime + time.Second, resent: 2 * lifetime, refusal: aggregates.ErrInvitationNotPending},
	} {
		t.Run(name, func(t *testing.T) {
			m := sys.team(t)
			start := m.clock.now()
			invitation := m.invite(t, m.nobody.email, events.Viewer)
			if test.resent > 0 {
				m.clock.move(test.resent)
				_, err := m.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: m.owner.in(m.id), Invitation: invitation})
				require.NoError(t, err)
			}
			m.clock.move(test.at - test.resent)
			now := m.clock.now()
			require.Equal(t, test.at, now.Sub(start))
			require.Equal(t, test.refusal != nil, !m.invitation(t, invitation).Acceptable(now))
			forThem, err := projections.Invitations{DB: m.db}.ForAddresses(t.Context(), []string{m.nobody.email}, now, 10)
			require.NoError(t, err)
			require.Equal(t, test.refusal == nil, listed(forThem, invitation), "whom it is for sees it while it can be accepted")
			_, err = m.other.AcceptInvitation(t.Context(), accept(m.nobody, m.id, invitation))
			require.ErrorIs(t, err, test.refusal)
			_, in := m.roles(t, m.id)[m.nobody.user]
			require.Equal(t, test.refusal == nil, in)
		})
	}
}

func listed(list []projections.Invitation, id events.ID) bool {
	for _, i := range list {
		if i.ID == id {
			return true
		}
	}
	return false
}

// Both processes answer at the same moment.
func TestInvitationIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	type answer = func(r replica, m *team, invitation events.ID, by person) error
	accepts := func(r replica, m *team, invitation events.ID, by person) error {
		_, err := r.AcceptInvitation(t.Context(), accept(by, m.id, invitation))
		return err
	}
	rejects := func(r replica, m *team, invitation events.ID, by person) error {
		_, err := r.RejectInvitation(t.Context(), reject(by, m.id, invitation))
		return err
	}
	revokes := func(r replica, m *team, invitation events.ID, _ person) error {
		_, err := r.RevokeInvitation(t.Context(), commands.RevokeInvitation{Meta: m.owner.in(m.id), Invitation: invitation})
		return err
	}
	for name, answers := range map[string][2]answer{
		"accepted twice":        {accepts, accepts},
		"accepted and rejected": {accepts, rejects},
		"accepted and revoked":  {accepts, revokes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := sys.team(t)
			for round := range 50 {
				p := newPerson("yan-" + newID().String()[24:])
				invitation := m.invite(t, p.email, events.Viewer)
				before := m.head(t, m.id)
				errs := race(func(i int) error {
					by := p
					by.member = newID()
					return answers[i]([]replica{m.replica, m.other}[(i+round)%2], m, invitation, by)
				})
				requireOne(t, errs, aggregates.ErrInvitationNotPending)
				added := m.history(t, m.id, before+1)
				_, in := m.roles(t, m.id)[p.user]
				switch added[0].(type) {
				case events.InvitationAccepted:
					require.Len(t, added, 2)
					require.True(t, in)
				default:
					require.Len(t, added, 1)
					require.False(t, in)
				}
			}
		})
	}
}

func TestAddressHasOnePendingInvitation(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for range 25 {
		email := newID().String() + "@mail.example"
		requireOne(t, race(func(i int) error {
			_, err := []replica{m.replica, m.other}[i].SendInvitation(t.Context(), commands.SendInvitation{
				Meta: m.owner.in(m.id), Invitation: newID(), Email: email, Role: events.Viewer,
			})
			return err
		}), aggregates.ErrAlreadyInvited)
	}
}

// Nobody can take over an invitation of another workspace by using its id.
func TestInvitationIDBelongsToOneWorkspace(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	m, other := sys.team(t), sys.team(t)
	invitation := m.invite(t, m.nobody.email, events.Viewer)
	_, err := sys.SendInvitation(t.Context(),
		commands.SendInvitation{Meta: other.owner.in(other.id), Invitation: invitation, Email: m.nobody.email, Role: events.Owner})
	require.ErrorIs(t, err, commands.ErrInvitationExists)
	_, err = sys.AcceptInvitation(t.Context(), accept(m.nobody, other.id, invitation))
	require.ErrorIs(t, err, aggregates.ErrNoInvitation)
}
