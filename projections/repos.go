package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// maxRepos bounds the result of Repos.
const maxRepos = 1000

// A RepoRuns is a repository with the numbers of its runs.
type RepoRuns struct {
	ID       events.ID `db:"repo_id"`
	Name     string    `db:"repo_name"`
	Active   int       `db:"active"`
	Terminal int       `db:"terminal"`
}

// Repos returns up to maxRepos repositories that runs of a workspace worked on, by name. The
// name of a repository is that of the run with the highest issue number.
func (v Runs) Repos(ctx context.Context, workspace events.ID) ([]RepoRuns, error) {
	rows, _ := v.DB.Query(ctx, `
		select c.repo_id, r.repo_name, c.active, c.terminal
		from (select * from run_counts where workspace_id = $1 order by repo_id limit $2) c
		cross join lateral (
			select repo_name from runs where workspace_id = $1 and repo_id = c.repo_id order by issue_number desc limit 1) r
		order by r.repo_name collate "C", c.repo_id`, workspace, maxRepos)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[RepoRuns])
	if err != nil {
		return nil, fmt.Errorf("read repositories of %s: %w", workspace, err)
	}
	return list, nil
}
