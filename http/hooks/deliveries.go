package hooks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// Deliveries are the last ones to the hook of each repository. They are kept to be shown, and so that a delivery that is
// repeated soon is known to any process. A later repetition is one more look at the repository.
type Deliveries struct{ DB *pgxpool.Pool }

// maxKept is how many deliveries of a repository are kept.
const maxKept = 20

// A Delivery is one that is kept.
type Delivery struct {
	At       time.Time `db:"at"`
	Event    string    `db:"event"`    // as the host names it
	Accepted bool      `db:"accepted"` // false: its signature is wrong
}

// add keeps a delivery, and reports whether it is new. It takes the place of the oldest one.
func (l Deliveries) add(ctx context.Context, d delivery) (added bool, err error) {
	tag, err := l.DB.Exec(ctx, `
		with old as (
			delete from hook_deliveries where workspace_id = $1 and repo_id = $2 and delivery in (
				select delivery from hook_deliveries where workspace_id = $1 and repo_id = $2 and delivery <> $3
				order by at desc offset $6))
		insert into hook_deliveries as h (workspace_id, repo_id, delivery, at, event, accepted) values ($1, $2, $3, now(), $4, $5)
		on conflict (workspace_id, repo_id, delivery) do update set at = excluded.at, event = excluded.event where not h.accepted`,
		d.workspace, d.repo, d.id, d.event, d.accepted, maxKept-1)
	return tag.RowsAffected() > 0, fault.Wrap(err, "keep a delivery to repository %s", d.repo)
}

// List returns the deliveries to the hook of a repository, the newest first.
func (l Deliveries) List(ctx context.Context, workspace, repo events.ID) ([]Delivery, error) {
	rows, _ := l.DB.Query(ctx, `
		select at, event, accepted from hook_deliveries where workspace_id = $1 and repo_id = $2 order by at desc limit $3`,
		workspace, repo, maxKept)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Delivery])
	return list, fault.Wrap(err, "list deliveries to repository %s", repo)
}
