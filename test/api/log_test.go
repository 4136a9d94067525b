package api

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// rows asks the service's database.
func rows[T any](t *testing.T, v *service, sql string, args ...any) []T {
	t.Helper()
	db, err := pgx.Connect(t.Context(), v.database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	r, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(r, pgx.RowTo[T])
	require.NoError(t, err)
	return list
}

// heads says how far every log has come: nothing was stored if they stay.
func (v *service) heads(t *testing.T) []string {
	t.Helper()
	return rows[string](t, v, `select format('%s %s', workspace_id, head) from logs order by 1`)
}
