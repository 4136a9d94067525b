package fold

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// A Replica waits for views when followed views are read from a read replica of the database, which
// lags behind the primary. Other views are always read from the primary.
type Replica struct {
	DB       *pgxpool.Pool
	Follower *Follower // of the primary
}

// Reached is [Follower.Reached] on the database that the view is read from.
func (r Replica) Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error) {
	return r.Follower.waiters.reached(ctx, r.viewKey(view, workspace), seq)
}

// Await is [Follower.Await] on the database that the view is read from.
func (r Replica) Await(ctx context.Context, view string, workspace events.ID, seq int64) error {
	return r.Follower.waiters.await(ctx, r.viewKey(view, workspace), seq)
}

func (r Replica) viewKey(view string, workspace events.ID) viewKey {
	db := r.Follower.db
	if slices.ContainsFunc(r.Follower.views, func(v View) bool { return v.Name() == view }) {
		db = r.DB
	}
	return viewKey{db, view, workspace}
}

type requirementKey struct{}

// A requirement is what the server of a connection must have before the connection is used.
type requirement struct {
	views     []string
	workspace events.ID
	seq       int64
}

// Require returns a context for reads that must see the workspace's events up to seq, at least 1, in the
// views. See [CheckServer].
func Require(ctx context.Context, views []string, workspace events.ID, seq int64) context.Context {
	return context.WithValue(ctx, requirementKey{}, requirement{views, workspace, seq})
}

// CheckServer is the PrepareConn of a pool whose address may lead to several servers: that one of them has
// reached a position says nothing of the one that answers next. A query whose context is from [Require] fails
// with [ErrNotCaughtUp] if the server of the connection that would run it has not reached the position.
// [RetryBehind] repeats it. CheckServer does not wait, since others may need the connection.
func CheckServer(ctx context.Context, conn *pgx.Conn) (valid bool, err error) {
	r, ok := ctx.Value(requirementKey{}).(requirement)
	if !ok {
		return true, nil
	}
	var reached int
	err = conn.QueryRow(ctx, `
		select count(*) from checkpoints where workspace_id = $1 and view = any($2) and seq >= $3`, r.workspace, r.views, r.seq).Scan(&reached)
	switch {
	case err != nil:
		return !conn.IsClosed(), fmt.Errorf("read positions of views %q: %w", r.views, err)
	case reached < len(r.views):
		return true, ErrNotCaughtUp
	}
	return true, nil
}
