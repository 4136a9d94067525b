package fold

import (
	"context"
	"slices"

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
