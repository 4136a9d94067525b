package projections_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/test/world"
)

// The migration of rows that contain the first sender makes what a rebuild makes.
func TestMigrationFindsLastSenderOfInvitation(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	p, err := w.NewPlayer(t.Context(), 11)
	require.NoError(t, err)
	first := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "mia@acme.example"}
	second := events.Actor{Type: events.ByUser, ID: world.NewID(), Name: "ada@acme.example"}
	for n := range 3 { // resent never, once and twice
		id := world.NewID()
		w.Record(t, first, p.Workspace, p.Workspace,
			events.InvitationSent{Invitation: id, Email: "x@acme.example", Role: events.Viewer, ExpiresAt: world.Epoch})
		for _, by := range []events.Actor{first, second}[2-n:] {
			w.Record(t, by, p.Workspace, p.Workspace, events.InvitationResent{Invitation: id, Email: "x@acme.example", ExpiresAt: world.Epoch})
		}
	}
	sql, err := os.ReadFile(filepath.Join("..", "migrations", "0033_invitation_senders.sql"))
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(),
		`update invitations i set inviter_id = (e.meta->'actor'->>'id')::uuid, inviter_name = e.meta->'actor'->>'name'
		from events e where e.workspace_id = i.workspace_id and e.kind = 'invitation.sent' and e.data->>'invitationId' = i.invitation_id::text`)
	require.NoError(t, err)
	differing := func() (n int) {
		for _, d := range world.Compare(t, w.DB, p.Workspace).Differences {
			if d.View == "invitations" { // no command claimed their keys
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, differing())
	_, err = w.DB.Exec(t.Context(), string(sql))
	require.NoError(t, err)
	require.Zero(t, differing())
}
