//go:build !race

package rebuild

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections/fold"
	"svc/test/pgtest"
)

// workspaces is a view of a database without events.
var workspaces = &fold.Table[events.ID, struct {
	ID events.ID `db:"workspace_id"`
}]{View: "workspaces", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true}

// A swap that takes too long is abandoned and leaves the view unchanged.
func TestSlowSwapIsAbandoned(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), pgtest.New(t)
	r := newRebuild(db, workspaces, "__next", &allViews{})
	r.resumable = true
	conn, err := db.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	require.NoError(t, r.lock(ctx, conn.Conn()))
	require.NoError(t, r.prepareTable(ctx, conn.Conn()))
	require.NoError(t, newPass(db, db, []*rebuild{r}, limits{}).run(ctx))
	indexes, err := r.createIndexes(ctx, nil)
	require.NoError(t, err)
	oid := func(table string) (oid int64) {
		require.NoError(t, db.QueryRow(ctx, `select $1::text::regclass::oid::bigint`, table).Scan(&oid))
		return oid
	}
	live, next := oid(r.view.Name()), oid(r.nextTable)

	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return r.swapIn(ctx, blockedTx{tx}, indexes, 50*time.Millisecond) })
	require.ErrorIs(t, err, errHeldTooLong)
	require.Equal(t, []int64{live, next}, []int64{oid(r.view.Name()), oid(r.nextTable)})

	require.NoError(t, r.swap(ctx, indexes))
	require.Equal(t, next, oid(r.view.Name()))
}

// blockedTx is a transaction whose queries block until their context ends.
type blockedTx struct{ pgx.Tx }

func (s blockedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	<-ctx.Done()
	return s.Tx.Query(ctx, sql, args...)
}

// The server ends a swap, and a replacement of the rows of a log, if the process that does it vanishes.
func TestVanishedRebuildReleasesItsLocks(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), pgtest.New(t)
	limit := func(do func(tx pgx.Tx) error) (limit string) {
		require.NoError(t, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			require.NoError(t, do(tx))
			return tx.QueryRow(ctx, `show idle_in_transaction_session_timeout`).Scan(&limit)
		}))
		return limit
	}
	r := newRebuild(db, workspaces, "__next", &allViews{})
	r.resumable = true
	conn, err := db.Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	require.NoError(t, r.lock(ctx, conn.Conn()))
	require.NoError(t, r.prepareTable(ctx, conn.Conn()))
	indexes, err := r.createIndexes(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, "8s", limit(func(tx pgx.Tx) error { return r.swapIn(ctx, tx, indexes, 4*time.Second) }))

	id := events.NewID(time.Unix(0, 0))
	_, err = db.Exec(ctx, `insert into logs (workspace_id, head, last_at) values ($1, 0, now())`, id)
	require.NoError(t, err)
	r = newRebuild(db, workspaces, "__log", &allViews{})
	require.Equal(t, "10s", limit(func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `create temp table workspaces__log (like workspaces including all) on commit drop`)
		require.NoError(t, err)
		return r.replaceLog(ctx, tx, id)
	}))
}
