package fold

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// A Replica waits where followed views are read in a copy of the database,
// which comes after the database itself. What is not a followed view is never
// read there.
type Replica struct {
	DB       *pgxpool.Pool
	Follower *Follower // of the database itself
}

// Reached is [Follower.Reached] in the database that the view is read in.
func (r Replica) Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error) {
	return r.Follower.positions.reached(ctx, r.watched(view, workspace), seq)
}

// Await is [Follower.Await] in the database that the view is read in.
func (r Replica) Await(ctx context.Context, view string, workspace events.ID, seq int64) error {
	return r.Follower.positions.await(ctx, r.watched(view, workspace), seq)
}

func (r Replica) watched(view string, workspace events.ID) watched {
	db := r.Follower.db
	if slices.ContainsFunc(r.Follower.views, func(v View) bool { return v.Name() == view }) {
		db = r.DB
	}
	return watched{db, view, workspace}
}
