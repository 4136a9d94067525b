package aggregates

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

// yan is invited. He is not a member, and has verified two addresses.
var (
	yan       = id(7)
	yanMember = id(107)
	invited   = Invitee{User: yan, Emails: []string{"yan@mail.example", "yan@acme.example"}}

	letter  = id(50)
	another = id(51)

	deadline = noon.Add(48 * time.Hour)
	pending  = after(team, sent(letter, events.Viewer, noon))
)

func sent(id events.ID, role events.Role, at time.Time) events.InvitationSent {
	return events.InvitationSent{Invitation: id, Email: "yan@acme.example", Role: role, ExpiresAt: at.Add(48 * time.Hour)}
}

func resent(at time.Time) events.InvitationResent {
	return events.InvitationResent{Invitation: letter, Email: "yan@acme.example", ExpiresAt: at.Add(48 * time.Hour)}
}

func withdrawn(id events.ID) events.InvitationRevoked {
	return events.InvitationRevoked{Invitation: id, Email: "yan@acme.example"}
}

func accepted(role events.Role) []events.Event {
	return []events.Event{
		events.InvitationAccepted{Invitation: letter, Email: "yan@acme.example", User: yan},
		events.MemberJoined{Member: yanMember, User: yan, Email: "yan@mail.example", Role: role},
	}
}

var declined = events.InvitationRejected{Invitation: letter, Email: "yan@acme.example", User: yan}

type decide = func(*Workspace) ([]events.Event, error)

func TestInvite(t *testing.T) {
	invite := func(by events.ID, role events.Role, at time.Time) decide {
		return func(w *Workspace) ([]events.Event, error) {
			return w.Invite(by, another, "Yan@Acme.Example", role, yan, at)
		}
	}
	one := func(role events.Role, at time.Time) []events.Event { return []events.Event{sent(another, role, at)} }
	check(t, []spec[Workspace]{
		// Who may invite.
		{name: "an Owner invites a Viewer", given: team, when: invite(ann, events.Viewer, noon), then: one(events.Viewer, noon)},
		{name: "an Owner invites an Owner", given: team, when: invite(ann, events.Owner, noon), then: one(events.Owner, noon)},
		{name: "a Maintainer invites a Viewer", given: team, when: invite(mel, events.Viewer, noon), then: one(events.Viewer, noon)},
		{name: "a Maintainer invites a Maintainer", given: team, when: invite(mel, events.Maintainer, noon), then: one(events.Maintainer, noon)},
		{name: "a Maintainer cannot invite an Owner", given: team, when: invite(mel, events.Owner, noon), err: ErrOwnerRequired},
		{name: "a Viewer may not", given: team, when: invite(vic, events.Viewer, noon), err: errNotManager},
		{name: "a legacy member may not", given: team, when: invite(leo, events.Viewer, noon), err: errNotManager},
		{name: "a stranger learns nothing", given: team, when: invite(stranger, events.Viewer, noon), err: fault.ErrTenantNotFound},
		{name: "there must be a workspace", when: invite(ann, events.Viewer, noon), err: fault.ErrTenantNotFound},

		// The roles that can be given.
		{name: "the legacy role cannot be given", given: team, when: invite(ann, events.Legacy, noon), err: ErrNotAssignable},
		{name: "there is no such role", given: team, when: invite(ann, "King", noon), err: ErrNotAssignable},
		{name: "a role is needed", given: team, when: invite(ann, "", noon), err: ErrNotAssignable},

		// Whom one can invite.
		{name: "not a member", given: after(team, joined(yan, events.Viewer)), when: invite(ann, events.Viewer, noon), err: ErrAlreadyMember},
		{name: "who left may come back", given: after(team, joined(yan, events.Viewer), left(yan, events.Viewer)),
			when: invite(ann, events.Viewer, noon), then: one(events.Viewer, noon)},
		{name: "not twice", given: pending, when: invite(ann, events.Viewer, noon), err: ErrAlreadyInvited},
		{name: "not twice within 48 hours", given: pending, when: invite(ann, events.Viewer, deadline.Add(-time.Second)), err: ErrAlreadyInvited},
		{
			name: "after 48 hours the new one takes the place of the old one", given: pending, when: invite(ann, events.Maintainer, deadline),
			then: []events.Event{withdrawn(letter), sent(another, events.Maintainer, deadline)},
		},
		{
			name:  "at once if whoever sent the old one has left, whom an earlier build let go alone",
			given: after(team, caused{sent(letter, events.Viewer, noon), mel}, removed(mel, events.Maintainer)),
			when:  invite(ann, events.Viewer, noon),
			then:  []events.Event{withdrawn(letter), sent(another, events.Viewer, noon)},
		},
		{name: "again when the first was revoked", given: after(pending, withdrawn(letter)), when: invite(ann, events.Viewer, noon),
			then: one(events.Viewer, noon)},
		{name: "again when the first was rejected", given: after(pending, declined), when: invite(ann, events.Viewer, noon),
			then: one(events.Viewer, noon)},
		{
			name: "whom nobody knows yet", given: team, then: one(events.Viewer, noon),
			when: func(w *Workspace) ([]events.Event, error) {
				return w.Invite(ann, another, "yan@acme.example", events.Viewer, events.ID{}, noon)
			},
		},

		// Expiry.
		{name: "its end is UTC, in microseconds", given: team, when: invite(ann, events.Viewer, noon.Add(1999).In(time.FixedZone("", 7200))),
			then: one(events.Viewer, noon.Add(time.Microsecond))},
	})
}

func TestInviteByWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"", "yan", "Yan <yan@acme.example>", "yan@acme\n.example", "zoë@acme.example", "yan@gİtmail.example",
		strings.Repeat("y", 255) + "@a.io"} {
		_, err := folded[Workspace](team).Invite(ann, letter, address, events.Viewer, events.ID{}, noon)
		require.Equal(t, fault.Field("email", "must be an e-mail address"), err, "%q", address)
		_, err = folded[Workspace](team).Invite(mel, letter, address, events.Owner, events.ID{}, noon)
		require.Equal(t, fault.Field("email", "must be an e-mail address"), err, "a request is valid before it is refused: %q", address)
	}
	list, err := folded[Workspace](team).Invite(ann, letter, "Yan@Bücher.example", events.Viewer, events.ID{}, noon)
	require.NoError(t, err)
	require.Equal(t, "yan@xn--bcher-kva.example", list[0].(events.InvitationSent).Email)
}

// Invitations from when addresses in any script were stored stay as they are, but no
// address that is verified today matches them.
func TestInvitationsOfEarlierForms(t *testing.T) {
	for _, kept := range []string{"zoë@acme.example", "yan@bücher.example"} {
		early := sent(letter, events.Viewer, noon)
		early.Email = kept
		given := after(team, early)
		_, err := folded[Workspace](given).Accept(invited, letter, yanMember, noon)
		require.Equal(t, ErrNotInvitee, err)
		list, err := folded[Workspace](given).Resend(ann, letter, noon)
		require.NoError(t, err)
		require.Equal(t, kept, list[0].(events.InvitationResent).Email)
		list, err = folded[Workspace](given).Revoke(ann, letter)
		require.NoError(t, err)
		require.Equal(t, []events.Event{events.InvitationRevoked{Invitation: letter, Email: kept}}, list)
		_, err = folded[Workspace](after(given, list...)).Invite(ann, another, "yan@bücher.example", events.Viewer, events.ID{}, noon)
		require.NoError(t, err)
	}
}

// The state of a workspace does not grow with every invitation that it ever closed.
func TestWorkspaceForgetsEarlyInvitations(t *testing.T) {
	w := folded[Workspace](team)
	ids := make([]events.ID, maxClosed+1)
	for i := range ids {
		ids[i] = events.NewID(noon.Add(time.Duration(i) * time.Millisecond))
		apply(w, sent(ids[i], events.Viewer, noon))
		apply(w, withdrawn(ids[i]))
	}
	_, err := w.Revoke(ann, ids[0])
	require.Equal(t, ErrNoInvitation, err)
	_, err = w.Revoke(ann, ids[1])
	require.Equal(t, ErrInvitationNotPending, err)
	_, err = w.Revoke(ann, ids[maxClosed])
	require.Equal(t, ErrInvitationNotPending, err)
	require.Len(t, w.closed, maxClosed)
}

func TestResend(t *testing.T) {
	resend := func(by events.ID, at time.Time) decide {
		return func(w *Workspace) ([]events.Event, error) { return w.Resend(by, letter, at) }
	}
	late := deadline.Add(1000 * time.Hour)
	forOwner := after(team, sent(letter, events.Owner, noon))
	check(t, []spec[Workspace]{
		{name: "its 48 hours begin again", given: pending, when: resend(mel, noon.Add(time.Hour)),
			then: []events.Event{resent(noon.Add(time.Hour))}},
		{name: "also once they are over", given: pending, when: resend(mel, late), then: []events.Event{resent(late)}},
		{name: "a Maintainer cannot invite an Owner this way", given: forOwner, when: resend(mel, noon), err: ErrOwnerRequired},
		{name: "an Owner can", given: forOwner, when: resend(ann, noon), then: []events.Event{resent(noon)}},
		{name: "a Viewer may not", given: pending, when: resend(vic, noon), err: errNotManager},
		{name: "a stranger learns nothing", given: pending, when: resend(stranger, noon), err: fault.ErrTenantNotFound},
		{name: "there must be such an invitation", given: team, when: resend(ann, noon), err: ErrNoInvitation},
		{name: "not once it is accepted", given: after(pending, accepted(events.Viewer)...), when: resend(ann, noon),
			err: ErrInvitationNotPending},
		{name: "not once it is rejected", given: after(pending, declined), when: resend(ann, noon), err: ErrInvitationNotPending},
		{name: "not once it is revoked", given: after(pending, withdrawn(letter)), when: resend(ann, noon), err: ErrInvitationNotPending},
		{name: "not once another took its place", given: after(pending, withdrawn(letter), sent(another, events.Viewer, deadline)),
			when: resend(ann, deadline), err: ErrInvitationNotPending},
	})
}

func TestRevokeInvitation(t *testing.T) {
	revoke := func(by events.ID) decide {
		return func(w *Workspace) ([]events.Event, error) { return w.Revoke(by, letter) }
	}
	check(t, []spec[Workspace]{
		{name: "a Maintainer takes it back", given: pending, when: revoke(mel), then: []events.Event{withdrawn(letter)}},
		{name: "a Maintainer takes back an Owner's", given: after(team, sent(letter, events.Owner, noon)), when: revoke(mel),
			then: []events.Event{withdrawn(letter)}},
		{name: "a Viewer may not", given: pending, when: revoke(vic), err: errNotManager},
		{name: "a stranger learns nothing", given: pending, when: revoke(stranger), err: fault.ErrTenantNotFound},
		{name: "the invitee is a stranger", given: pending, when: revoke(yan), err: fault.ErrTenantNotFound},
		{name: "there must be such an invitation", given: team, when: revoke(ann), err: ErrNoInvitation},
		{name: "not once it is accepted", given: after(pending, accepted(events.Viewer)...), when: revoke(ann), err: ErrInvitationNotPending},
		{name: "not once it is rejected", given: after(pending, declined), when: revoke(ann), err: ErrInvitationNotPending},
		{name: "not twice", given: after(pending, withdrawn(letter)), when: revoke(ann), err: ErrInvitationNotPending},
	})
}

func TestAccept(t *testing.T) {
	accept := func(by Invitee, at time.Time) decide {
		return func(w *Workspace) ([]events.Event, error) { return w.Accept(by, letter, yanMember, at) }
	}
	other := Invitee{User: stranger, Emails: []string{"stranger@acme.example"}}
	extended := after(pending, resent(deadline))
	check(t, []spec[Workspace]{
		{name: "the invitee joins with their primary address", given: pending, when: accept(invited, noon), then: accepted(events.Viewer)},
		{name: "in the role of the invitation", given: after(team, sent(letter, events.Owner, noon)), when: accept(invited, noon),
			then: accepted(events.Owner)},
		{name: "not when who invited them has left, whom an earlier build let go alone",
			given: after(pending, joined(bob, events.Owner), left(ann, events.Owner)), when: accept(invited, noon), err: ErrInvitationNotPending},
		{name: "not as an Owner when who invited them is a Maintainer now",
			given: after(team, sent(letter, events.Owner, noon), joined(bob, events.Owner), changed(ann, events.Owner, events.Maintainer)),
			when:  accept(invited, noon), err: ErrInvitationNotPending},
		{name: "as a Viewer though", given: after(pending, joined(bob, events.Owner), changed(ann, events.Owner, events.Maintainer)),
			when: accept(invited, noon), then: accepted(events.Viewer)},
		{name: "when somebody sent it again who is still there",
			given: after(pending, caused{resent(noon), mel}, joined(bob, events.Owner), left(ann, events.Owner)), when: accept(invited, noon),
			then: accepted(events.Viewer)},
		{name: "not when who sent it again has left", given: after(pending, caused{resent(noon), mel}, removed(mel, events.Maintainer)),
			when: accept(invited, noon), err: ErrInvitationNotPending},

		{name: "a second before the end", given: pending, when: accept(invited, deadline.Add(-time.Second)), then: accepted(events.Viewer)},
		{name: "not at the end", given: pending, when: accept(invited, deadline), err: ErrInvitationNotPending},
		{name: "not a second after the end", given: pending, when: accept(invited, deadline.Add(time.Second)), err: ErrInvitationNotPending},
		{name: "sent again, a second before the new end", given: extended, when: accept(invited, deadline.Add(48*time.Hour-time.Second)),
			then: accepted(events.Viewer)},
		{name: "sent again, not at the new end", given: extended, when: accept(invited, deadline.Add(48*time.Hour)),
			err: ErrInvitationNotPending},

		{name: "not by another address", given: pending, when: accept(other, noon), err: ErrNotInvitee},
		{name: "not by a member with another address", given: pending, when: accept(Invitee{User: vic, Emails: []string{emailOf(vic)}}, noon),
			err: ErrNotInvitee},
		{name: "not without a verified address", given: pending, when: accept(Invitee{User: yan}, noon), err: ErrNotInvitee},
		{name: "not at the end, whoever asks", given: pending, when: accept(other, deadline), err: ErrInvitationNotPending},
		{name: "not twice", given: after(pending, accepted(events.Viewer)...), when: accept(invited, noon), err: ErrInvitationNotPending},
		{name: "not twice, though they left", given: after(after(pending, accepted(events.Viewer)...), left(yan, events.Viewer)),
			when: accept(invited, noon), err: ErrInvitationNotPending},
		{name: "not once it is rejected", given: after(pending, declined), when: accept(invited, noon), err: ErrInvitationNotPending},
		{name: "not once it is revoked", given: after(pending, withdrawn(letter)), when: accept(invited, noon), err: ErrInvitationNotPending},
		{name: "not by a member", given: after(pending, joined(yan, events.Viewer)), when: accept(invited, noon), err: ErrAlreadyMember},
		{name: "there must be such an invitation", given: team, when: accept(invited, noon), err: ErrNoInvitation},
		{name: "there must be a workspace", when: accept(invited, noon), err: ErrNoInvitation},
	})
}

func TestReject(t *testing.T) {
	reject := func(by Invitee) decide {
		return func(w *Workspace) ([]events.Event, error) { return w.Reject(by, letter) }
	}
	check(t, []spec[Workspace]{
		{name: "the invitee says no", given: pending, when: reject(invited), then: []events.Event{declined}},
		{name: "not for somebody else", given: pending, when: reject(Invitee{User: stranger, Emails: []string{"stranger@acme.example"}}),
			err: ErrNotInvitee},
		{name: "not twice", given: after(pending, declined), when: reject(invited), err: ErrInvitationNotPending},
		{name: "not once it is accepted", given: after(pending, accepted(events.Viewer)...), when: reject(invited), err: ErrInvitationNotPending},
		{name: "not once it is revoked", given: after(pending, withdrawn(letter)), when: reject(invited), err: ErrInvitationNotPending},
		{name: "there must be such an invitation", given: team, when: reject(invited), err: ErrNoInvitation},
	})
}

func TestRefusalsOfAnInvitation(t *testing.T) {
	for _, c := range []struct {
		fault  *fault.Fault
		status int
		code   string
	}{
		{ErrNoInvitation, 404, "invitation_not_found"},
		{ErrInvitationNotPending, 409, "invitation_not_pending"},
		{ErrAlreadyInvited, 409, "already_invited"},
		{ErrNotInvitee, 403, "invitation_not_yours"},
		{ErrNoUser, 404, "user_not_found"},
	} {
		require.Equal(t, c.status, c.fault.Kind.Status(), c.code)
		require.Equal(t, c.code, c.fault.Code)
	}
}
