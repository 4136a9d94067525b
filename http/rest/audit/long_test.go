package audit

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/door"
	"svc/projections"
	"svc/projections/auditlog"
	"svc/test/pgtest"
	"svc/test/world"
)

// The memory of an export does not grow with the log.
func TestLongExportMemoryIsBounded(t *testing.T) {
	db := pgtest.New(t)
	peak := func(n int) (bytes uint64) {
		workspace := world.FillLog(t, db, n)
		e := newExporter(t, door.Pace{Timeout: testTimeout}, func(context.Context) *export {
			x := newExport(db, workspace, "ndjson", int64(n))
			next, pages := x.next, 0
			x.next = func(ctx context.Context, seq int64) ([]auditlog.AuditRow, error) {
				if pages++; pages%10 == 0 {
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					bytes = max(bytes, m.HeapAlloc)
				}
				return next(ctx, seq)
			}
			return x
		})
		res, err := e.Client().Get(e.URL)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.Greater(t, text, int64(n)*200)
		e.waitEnded(t)
		return bytes
	}
	few := peak(10 * exportPage)
	require.Less(t, float64(peak(100*exportPage)), 3*float64(few))
}

// A state is held in memory, so its size is bounded.
func TestTooLargeStateIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	workspace := events.NewID(epoch)
	const most = 100_000
	_, err := db.Exec(t.Context(), `
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select $1::uuid, n, lpad(to_hex(n), 32, '0')::uuid, $1::uuid, n, 'invitation.sent', 1, '2026-11-20T12:00:00Z'::timestamptz,
			'{"actor":{"type":"user","id":"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9","name":"ada@acme.example"},"origin":"api"}',
			format('{"invitationId":"%s","email":"w%s@acme.example","role":"Viewer","expiresAt":"2026-11-22T12:00:00Z"}',
				lpad(to_hex(n), 32, '0')::uuid, n)::json
		from generate_series(1, $2::int) n`, workspace, most+1)
	require.NoError(t, err)
	h := projections.History{DB: db}
	state, err := h.At(t.Context(), workspace, most/10)
	require.NoError(t, err)
	require.Len(t, state.Invitations(), most/10)
	_, err = h.At(t.Context(), workspace, most+1)
	require.ErrorIs(t, err, projections.ErrStateTooLarge)
	require.Equal(t, http.StatusConflict, projections.ErrStateTooLarge.Kind.Status())
}
