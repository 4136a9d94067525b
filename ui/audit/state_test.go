package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// Replay shows an invitation's state at the time of the step.
func TestInvitationsExpireInReplay(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 12, 14, 0, 0, 0, time.UTC)
	state := client.WorkspaceState{Invitations: []client.StateInvitation{
		{Id: "1", Email: "vera@acme.example", Status: client.StateInvitationStatusPending, ExpiresAt: at.Add(31*time.Hour + 59*time.Minute)},
		{Id: "2", Email: "piet@acme.example", Status: client.StateInvitationStatusPending, ExpiresAt: at.Add(-time.Hour)},
		{Id: "3", Email: "max@acme.example", Status: client.StateInvitationStatusAccepted, ExpiresAt: at.Add(time.Hour)},
	}}
	for moment, want := range map[time.Time][]string{
		at:                      {"pending, 31 h left", "expired"},
		at.Add(31 * time.Hour):  {"pending, 59 min left", "expired"},
		at.Add(32 * time.Hour):  {"expired", "expired"},
		at.Add(-24 * time.Hour): {"pending, 55 h left", "pending, 23 h left"},
	} {
		d := replayData{rows: compareStates(state, state, moment)}
		var got []string
		for _, r := range d.rowsIn("invitations") {
			require.False(t, r.changed(), "passing time is not a change")
			got = append(got, r.status.after)
		}
		require.Equal(t, want, got)
		require.Equal(t, 2, d.count("invitations"))
	}
}

// Rows that the event changed are kept, and so are revoked accounts.
func TestCompareStates(t *testing.T) {
	t.Parallel()
	before := client.WorkspaceState{
		Members: []client.StateMember{{Id: "1", Email: "leo@acme.example", Role: "member"},
			{Id: "2", Email: "max@acme.example", Role: "Viewer"}},
		Invitations:     []client.StateInvitation{{Id: "3", Status: client.StateInvitationStatusPending, ExpiresAt: time.Unix(60, 0)}},
		ServiceAccounts: []client.StateServiceAccount{{Id: "4", Name: "old-bot", Status: "revoked"}},
	}
	after := before
	after.Members = []client.StateMember{{Id: "1", Email: "leo@acme.example", Role: "Maintainer"}}
	after.Invitations = []client.StateInvitation{{Id: "3", Status: client.StateInvitationStatusAccepted}}
	d := replayData{rows: compareStates(before, after, time.Unix(0, 0))}
	members := d.rowsIn("members")
	require.Len(t, members, 2)
	require.Equal(t, cell{"Viewer", "Maintainer"}, members[0].access)
	require.Equal(t, cell{"Viewer", ""}, members[1].access, "who was removed")
	require.Equal(t, 1, d.count("members"))
	require.Equal(t, cell{"pending, 1 min left", "accepted"}, d.rowsIn("invitations")[0].status)
	require.Zero(t, d.count("invitations"))
	require.Equal(t, "revoked", d.rowsIn("accounts")[0].status.after)
	require.Zero(t, d.count("accounts"))
}
