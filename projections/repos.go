package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// reposListed is how many repositories are listed at most.
const reposListed = 1000

// A RepoRuns is a repository, and how many runs it has.
type RepoRuns struct {
	ID       events.ID `db:"repo_id"`
	Name     string    `db:"repo_name"`
	Active   int       `db:"active"`
	Terminal int       `db:"terminal"`
}

// Repos returns the repositories that runs of a workspace have worked on, by name, of
// more than a thousand some. Each is called as its newest issue calls it.
func (v Runs) Repos(ctx context.Context, workspace events.ID) ([]RepoRuns, error) {
	rows, _ := v.DB.Query(ctx, `
		select c.repo_id, r.repo_name, c.active, c.terminal
		from (select * from run_counts where workspace_id = $1 order by repo_id limit $2) c
		cross join lateral (
			select repo_name from runs where workspace_id = $1 and repo_id = c.repo_id order by issue_number desc limit 1) r
		order by r.repo_name collate "C", c.repo_id`, workspace, reposListed)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[RepoRuns])
	if err != nil {
		return nil, fmt.Errorf("repositories of %s: %w", workspace, err)
	}
	return list, nil
}
