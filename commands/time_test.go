package commands_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
)

// An invitation expires after 48 hours, to the second, by the process's own clock. In the
// synctest bubble two days pass at once, and no background job is needed.
func TestInvitationExpiresByOwnClock(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := pgxpool.New(t.Context(), address) // a separate pool: a connection belongs to one bubble
		require.NoError(t, err)
		defer db.Close()
		log := store.New(db, projections.Inline(), func(events.ID, int64) {})
		defer log.Close()
		h := commands.New(log, time.Now)
		owner := events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: newID(), Name: "ada@acme.example"}, Origin: events.FromUI}
		acme := commands.Meta{Workspace: newID(), Envelope: owner}
		_, err = h.CreateWorkspace(t.Context(),
			commands.CreateWorkspace{Meta: acme, Member: newID(), Email: owner.Actor.Name, Name: "Acme", Slug: "acme"})
		require.NoError(t, err)

		invite := func(email string) events.ID {
			invitation := newID()
			_, err := h.SendInvitation(t.Context(), commands.SendInvitation{Meta: acme, Invitation: invitation, Email: email, Role: events.Viewer})
			require.NoError(t, err)
			return invitation
		}
		accept := func(invitation events.ID, email string) error {
			meta := commands.Meta{Workspace: acme.Workspace,
				Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: newID(), Name: email}, Origin: events.FromAuth}}
			_, err := h.AcceptInvitation(t.Context(),
				commands.AcceptInvitation{Meta: meta, Invitation: invitation, Member: newID(), Emails: []string{email}})
			return err
		}
		early, late := invite("bea@acme.example"), invite("leo@acme.example")
		time.Sleep(48*time.Hour - time.Second)
		require.NoError(t, accept(early, "bea@acme.example"))
		time.Sleep(time.Second)
		require.ErrorIs(t, accept(late, "leo@acme.example"), aggregates.ErrInvitationNotPending)

		_, err = h.ResendInvitation(t.Context(), commands.ResendInvitation{Meta: acme, Invitation: late})
		require.NoError(t, err)
		time.Sleep(48*time.Hour - time.Second)
		require.NoError(t, accept(late, "leo@acme.example"))
	})
}
