package world

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/projections/rebuild"
)

// FillLog inserts a log of n events by SQL, for speed, builds its audit index, and returns its workspace.
func FillLog(t testing.TB, db *pgxpool.Pool, n int) events.ID {
	t.Helper()
	workspace := NewID()
	for _, sql := range []string{
		`insert into logs values ('%[1]s', %[2]d, '2027-01-01')`, `
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select '%[1]s', n, md5('%[1]s' || n)::uuid, '%[1]s', n, case n when 1 then 'run.queued' else 'run.cost_recorded' end, 1,
			'2026-11-20T12:00:00Z'::timestamptz + n * interval '1 second', '{"actor":{"type":"system","name":"system"},"origin":"system"}',
			case n when 1 then '{"repo":{"name":"acme/web"},"issueNumber":7}'
				else '{"repoId":"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9","cents":7,"source":"compute","quantity":1}' end::json
		from generate_series(1, %[2]d) n`,
	} {
		_, err := db.Exec(t.Context(), fmt.Sprintf(sql, workspace, n))
		require.NoError(t, err)
	}
	for _, v := range projections.Followed() {
		if v.Name() == "audit" {
			_, err := rebuild.Log(t.Context(), db, v, workspace, rebuild.Options{})
			require.NoError(t, err)
		}
	}
	return workspace
}
