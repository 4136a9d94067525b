package audit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/fair"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/test/callers"
	"svc/test/pgtest"
	"svc/test/world"
)

func TestBoundsRefuseAlike(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const head = 10
	workspace, elsewhere := world.FillLog(t, db, head), world.FillLog(t, db, head)
	for name, c := range map[string]struct {
		bound func(*door.Bounds) **fair.Semaphore
		ask   func(context.Context, *Server) error
	}{
		"an export": {
			func(b *door.Bounds) **fair.Semaphore { return &b.Exports },
			func(ctx context.Context, s *Server) error {
				_, err := s.exportAudit(ctx, &exportQuery{Format: "csv"}, commands.ExportAudit{})
				return err
			},
		},
		"a page of an export": {
			func(b *door.Bounds) **fair.Semaphore { return &b.ExportPages },
			func(ctx context.Context, s *Server) error {
				one := door.CallerOf(ctx)
				c := &door.Caller{Workspace: one.Workspace, Person: one.Person, FoundAt: one.FoundAt, Envelope: one.Envelope} // whose slots are its own
				defer c.ReleaseSlots()
				_, err := s.exportAudit(callers.As(t, c), &exportQuery{Format: "csv"}, commands.ExportAudit{})
				return err
			},
		},
		"a verification": {
			func(b *door.Bounds) **fair.Semaphore { return &b.Verifications },
			func(ctx context.Context, s *Server) error { _, err := s.verifyAudit(ctx, &verifyQuery{}); return err },
		},
		"a state": {
			func(b *door.Bounds) **fair.Semaphore { return &b.Histories },
			func(ctx context.Context, s *Server) error {
				_, err := s.getAuditState(ctx, &stateQuery{Seq: 1})
				return err
			},
		},
		"a replay": {
			func(b *door.Bounds) **fair.Semaphore { return &b.Histories },
			func(ctx context.Context, s *Server) error {
				_, err := s.replayAudit(ctx, &replayQuery{FromSeq: 1, ToSeq: 2})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := historyServer(db)
			bound := c.bound(s.Bounds)
			*bound = fair.New(fair.Bound{Name: name, Slots: 4, Retry: 3 * time.Second})
			callers.RefusedAlike(t, s.Door, *bound, workspace, elsewhere, func(ctx context.Context) error { return c.ask(ctx, s) })
		})
	}
}

// An invalid request fails before it acquires a slot.
func TestInvalidRequestAcquiresNoSlot(t *testing.T) {
	t.Parallel()
	s := historyServer(pgtest.New(t))
	c := callers.Owner(events.NewID(epoch))
	for range 2 {
		require.NoError(t, s.AcquireSlot(callers.As(t, c), s.Bounds.Exports))
	}
	backwards := AuditFilter{
		From: openapi.OptionalTime{Time: epoch, Sent: true}, To: openapi.OptionalTime{Time: epoch.Add(-time.Hour), Sent: true},
	}
	_, err := s.exportAudit(callers.As(t, c), &exportQuery{Format: "csv", AuditFilter: backwards}, commands.ExportAudit{})
	require.ErrorIs(t, err, fault.ErrValidation)
	_, err = s.exportAudit(callers.As(t, c), &exportQuery{Format: "csv"}, commands.ExportAudit{})
	require.ErrorIs(t, err, fair.ErrShare)
}
