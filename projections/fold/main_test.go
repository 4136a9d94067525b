package fold_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"

	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// terminate ends the server's processes that rows are of, and waits until there are
// none. The server's own wait looks only ten times a second.
func terminate(t *testing.T, db *pgxpool.Pool, rows string) {
	assert.Eventually(t, func() bool {
		var there int
		err := db.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from `+rows).Scan(&there)
		return err == nil && there == 0
	}, world.Limit, time.Millisecond)
}
