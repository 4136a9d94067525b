package aggregates

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// lapsed returns the revocation of an invitation whose sender lost their right.
func lapsed(id events.ID) events.InvitationRevoked {
	e := withdrawn(id)
	e.Reason = events.InviterLeft
	return e
}

// When somebody loses a right, the invitations that they sent by it are revoked.
func TestInvitationsEndWithTheirSendersRight(t *testing.T) {
	of := func(by events.ID, e events.Event) []events.Event { return after(pair, caused{e, by}) }
	owners, viewers := sent(letter, events.Owner, noon), sent(letter, events.Viewer, noon)
	early := sent(letter, events.Viewer, noon.Add(-48*time.Hour))
	check(t, []spec[Workspace]{
		{name: "removed", given: of(mel, viewers), when: remove(ann, mel), then: []events.Event{removed(mel, events.Maintainer), lapsed(letter)}},
		{name: "an Owner who is removed", given: of(bob, owners), when: remove(ann, bob),
			then: []events.Event{removed(bob, events.Owner), lapsed(letter)}},
		{name: "left", given: of(mel, viewers), when: remove(mel, mel), then: []events.Event{left(mel, events.Maintainer), lapsed(letter)}},
		{name: "a Maintainer becomes a Viewer", given: of(mel, viewers), when: update(ann, mel, events.Viewer, nil),
			then: []events.Event{changed(mel, events.Maintainer, events.Viewer), lapsed(letter)}},
		{name: "an Owner becomes a Viewer", given: of(bob, viewers), when: update(ann, bob, events.Viewer, nil),
			then: []events.Event{changed(bob, events.Owner, events.Viewer), lapsed(letter)}},
		{name: "an Owner becomes a Maintainer, who invites no Owner", given: of(bob, owners), when: update(ann, bob, events.Maintainer, nil),
			then: []events.Event{changed(bob, events.Owner, events.Maintainer), lapsed(letter)}},
		{name: "an Owner becomes a Maintainer, who invites a Viewer", given: of(bob, viewers), when: update(ann, bob, events.Maintainer, nil),
			then: []events.Event{changed(bob, events.Owner, events.Maintainer)}},
		{name: "a Maintainer becomes an Owner", given: of(mel, viewers), when: update(ann, mel, events.Owner, nil),
			then: []events.Event{changed(mel, events.Maintainer, events.Owner)}},
		{
			name: "a role and a tick", given: of(mel, viewers), when: update(ann, mel, events.Viewer, &yes),
			then: []events.Event{changed(mel, events.Maintainer, events.Viewer), lapsed(letter), ticked(mel, false, true)},
		},
		{name: "those of others stay", given: of(ann, viewers), when: remove(ann, mel), then: []events.Event{removed(mel, events.Maintainer)}},
		{name: "what somebody else sent again stays", given: after(of(mel, viewers), caused{resent(noon), ann}), when: remove(ann, mel),
			then: []events.Event{removed(mel, events.Maintainer)}},
		{name: "what they sent again goes", given: after(of(ann, viewers), caused{resent(noon), mel}), when: remove(ann, mel),
			then: []events.Event{removed(mel, events.Maintainer), lapsed(letter)}},
		{name: "what has expired is over", given: of(mel, early), when: remove(ann, mel), then: []events.Event{removed(mel, events.Maintainer)}},
		{name: "what was rejected is over", given: after(of(mel, viewers), declined), when: remove(ann, mel),
			then: []events.Event{removed(mel, events.Maintainer)}},
	})
}

// many returns invitations that mel sends, one each second.
func many(n int, first time.Time) []events.Event {
	list := slices.Clone(team)
	for i := range n {
		var id events.ID
		binary.BigEndian.PutUint32(id[:], uint32(i+1))
		list = append(list, caused{events.InvitationSent{
			Invitation: id, Email: fmt.Sprintf("%d@acme.example", i), Role: events.Viewer,
			ExpiresAt: expiryAfter(first.Add(time.Duration(i) * time.Second)),
		}, mel})
	}
	return list
}

// Invitations beyond the number that is revoked at once cannot be accepted either.
func TestMoreInvitationsThanAreWithdrawnAtOnce(t *testing.T) {
	given := many(maxWithdrawn+1, noon)
	w := folded[Workspace](given)
	list, err := w.Remove(ann, memberOf(mel), noon)
	require.NoError(t, err)
	require.Len(t, list, 1+maxWithdrawn)
	for _, e := range list {
		apply(w, e)
	}
	require.Len(t, w.invitations, 1)
	for id, i := range w.invitations {
		_, err := w.Accept(Invitee{User: yan, Emails: []string{i.email}}, id, yanMember, noon)
		require.Equal(t, ErrInvitationNotPending, err)
		_, err = w.Resend(ann, id, noon)
		require.NoError(t, err)
	}
}

// The cost of a removal does not grow with the number of invitations that were ever sent.
func TestRemovingSomebodyWhoInvitedMany(t *testing.T) {
	fastest := func(n int) time.Duration {
		w := folded[Workspace](many(n, noon))
		least := time.Hour
		for range 200 {
			start := time.Now()
			list, err := w.Remove(ann, memberOf(mel), noon.Add(1000*time.Hour))
			least = min(least, time.Since(start))
			require.NoError(t, err)
			require.Len(t, list, 1)
		}
		return least
	}
	require.Less(t, fastest(50_000), 50*max(fastest(5), time.Microsecond))
}
