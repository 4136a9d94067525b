package projections_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// What the migration makes of rows that an earlier build wrote, which named the
// first sender, is what a rebuild makes.
func TestTheMigrationKnowsWhoSentAnInvitationLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, err := w.settle(t.Context(), 11)
	require.NoError(t, err)
	first := events.Actor{Type: events.ByUser, ID: newID(), Name: "mia@acme.example"}
	second := events.Actor{Type: events.ByUser, ID: newID(), Name: "ada@acme.example"}
	for n := range 3 { // sent again never, once and twice
		id := newID()
		w.record(t, first, p.workspace, p.workspace, events.InvitationSent{Invitation: id, Email: "x@acme.example", Role: events.Viewer, ExpiresAt: epoch})
		for _, by := range []events.Actor{first, second}[2-n:] {
			w.record(t, by, p.workspace, p.workspace, events.InvitationResent{Invitation: id, Email: "x@acme.example", ExpiresAt: epoch})
		}
	}
	sql, err := os.ReadFile(filepath.Join("..", "migrations", "0033_invitation_senders.sql"))
	require.NoError(t, err)
	_, err = w.db.Exec(t.Context(), `update invitations i set inviter_id = (e.meta->'actor'->>'id')::uuid, inviter_name = e.meta->'actor'->>'name'
		from events e where e.workspace_id = i.workspace_id and e.kind = 'invitation.sent' and e.data->>'invitationId' = i.invitation_id::text`)
	require.NoError(t, err)
	differing := func() (n int) {
		for _, d := range compared(t, w.db, p.workspace).Differences {
			if d.View == "invitations" { // no command claimed their keys
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, differing())
	_, err = w.db.Exec(t.Context(), string(sql))
	require.NoError(t, err)
	require.Zero(t, differing())
}
