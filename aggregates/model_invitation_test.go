package aggregates

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/events"
)

// invitationModel is an invitation in the machine's model.
type invitationModel struct {
	id      events.ID
	email   string
	role    events.Role
	expires time.Time
	end     string    // how it ended; empty while it is pending
	sender  events.ID // who sent it last
}

// addressesOf returns the verified addresses of a user. Users from 7 on have never signed
// in.
func addressesOf(user byte) []string {
	return []string{fmt.Sprintf("%d@acme.example", user), fmt.Sprintf("%d@home.example", user)}
}

// wait lets time pass, often until the second in which an invitation expires, or the one
// before or after it.
func (m *machine) wait(t *rapid.T) {
	if n := len(m.letters); n > 0 && rapid.Bool().Draw(t, "to an end") {
		end := m.letters[rapid.IntRange(0, n-1).Draw(t,
			"letter")].expires.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "second")) * time.Second)
		if end.After(m.at) {
			m.at = end
		}
		return
	}
	m.at = m.at.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
}

// letter picks an invitation, usually one that was sent.
func (m *machine) letter(t *rapid.T) *invitationModel {
	unknown := &invitationModel{id: id(254), end: "never sent"}
	return rapid.SampledFrom(append(slices.Clone(m.letters), unknown)).Draw(t, "letter")
}

// to returns the pending invitation to an address, nil if there is none.
func (m *machine) to(email string) *invitationModel {
	for _, l := range m.letters {
		if l.email == email && l.end == "" {
			return l
		}
	}
	return nil
}

func (m *machine) invite(t *rapid.T) {
	if len(m.letters) > 40 {
		t.Skip("enough letters")
	}
	by, whom := users.Draw(t, "by"), rapid.ByteRange(1, 8).Draw(t, "whom")
	email := rapid.SampledFrom(addressesOf(whom)).Draw(t, "address")
	role := rapid.SampledFrom([]events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy}).Draw(t, "role")
	var known events.ID
	if whom <= 6 {
		known = id(whom)
	}
	actor, before := m.roleOf(by), m.to(email)
	may := actor.May(events.ManageMembers) && role != events.Legacy && (role != events.Owner || actor == events.Owner) &&
		m.roleOf(known) == "" && (before == nil || !m.at.Before(before.expires))
	number := id(byte(150 + len(m.letters)))
	list := m.ask(t, by, func(w *Workspace) ([]events.Event, error) { return w.Invite(by, number, email, role, known, m.at) })
	require.Equal(t, may, len(list) > 0, "%q invites %s", actor, email)
	if may {
		require.Equal(t, &invitationModel{id: number, email: email, role: role, expires: m.at.Add(48 * time.Hour), sender: by}, m.to(email))
	}
}

func (m *machine) resend(t *rapid.T) {
	by, l := users.Draw(t, "by"), m.letter(t)
	actor := m.roleOf(by)
	may := actor.May(events.ManageMembers) && l.end == "" && (l.role != events.Owner || actor == events.Owner)
	list := m.ask(t, by, func(w *Workspace) ([]events.Event, error) { return w.Resend(by, l.id, m.at) })
	require.Equal(t, may, len(list) > 0)
	if may {
		require.Equal(t, m.at.Add(48*time.Hour), l.expires)
	}
}

func (m *machine) revoke(t *rapid.T) {
	by, l := users.Draw(t, "by"), m.letter(t)
	may := m.roleOf(by).May(events.ManageMembers) && l.end == ""
	list := m.ask(t, by, func(w *Workspace) ([]events.Event, error) { return w.Revoke(by, l.id) })
	require.Equal(t, may, len(list) > 0)
}

func (m *machine) accept(t *rapid.T) {
	by, l := rapid.ByteRange(1, 6).Draw(t, "by"), m.letter(t)
	may := l.end == "" && m.at.Before(l.expires) && slices.Contains(addressesOf(by), l.email) && m.roleOf(id(by)) == ""
	list := m.ask(t, id(by), func(w *Workspace) ([]events.Event, error) {
		return w.Accept(Invitee{User: id(by), Emails: addressesOf(by)}, l.id, m.member(), m.at)
	})
	require.Equal(t, may, len(list) > 0, "%d accepts the letter to %s, which %s", by, l.email, l.end)
	if may {
		require.True(t, m.maySend(l), "whoever sent it can no longer send it")
		require.Equal(t, l.role, m.roleOf(id(by)))
		require.Equal(t, "accepted", l.end)
	}
}

func (m *machine) reject(t *rapid.T) {
	by, l := rapid.ByteRange(1, 6).Draw(t, "by"), m.letter(t)
	may := l.end == "" && slices.Contains(addressesOf(by), l.email)
	list := m.ask(t, id(by), func(w *Workspace) ([]events.Event, error) {
		return w.Reject(Invitee{User: id(by), Emails: addressesOf(by)}, l.id)
	})
	require.Equal(t, may, len(list) > 0)
}

// post applies what happened to an invitation to the model.
func (m *machine) post(by events.ID, e events.Event) {
	var of events.ID
	end := ""
	switch e := e.(type) {
	case events.InvitationSent:
		m.letters = append(m.letters, &invitationModel{id: e.Invitation, email: e.Email, role: e.Role, expires: e.ExpiresAt, sender: by})
		return
	case events.InvitationResent:
		for _, l := range m.letters {
			if l.id == e.Invitation {
				l.expires, l.sender = e.ExpiresAt, by
			}
		}
		return
	case events.InvitationRevoked:
		of, end = e.Invitation, "revoked"
	case events.InvitationAccepted:
		of, end = e.Invitation, "accepted"
	case events.InvitationRejected:
		of, end = e.Invitation, "rejected"
	}
	for _, l := range m.letters {
		if l.id == of {
			l.end += end // a second end would show
		}
	}
}

// maySend reports whether the last sender of a letter may send it now.
func (m *machine) maySend(l *invitationModel) bool {
	role := m.roleOf(l.sender)
	return role == events.Owner || role == events.Maintainer && l.role != events.Owner
}

// checkInvitations checks what is true of invitations after every action.
func (m *machine) checkInvitations(t *rapid.T) {
	open := map[events.ID]invitation{}
	addressed := map[string]events.ID{}
	for _, l := range m.letters {
		require.Contains(t, []string{"", "revoked", "accepted", "rejected"}, l.end, "it ends once")
		if l.end == "" {
			require.NotContains(t, addressed, l.email, "two wait for one address")
			open[l.id], addressed[l.email] = invitation{email: l.email, role: l.role, expires: l.expires, sender: l.sender}, l.id
			require.True(t, !m.at.Before(l.expires) || m.maySend(l), "one can still be accepted though %v could not send it", l.sender)
		}
	}
	require.Equal(t, open, m.state.invitations)
	require.Equal(t, addressed, m.state.invited)
	require.Len(t, m.state.closed, len(m.letters)-len(open))
}
