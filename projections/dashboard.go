package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// Dashboard answers what a workspace is busy with, from the runs.
type Dashboard struct{ DB *pgxpool.Pool }

// Position returns how far the view that the dashboard is drawn from has come
// in a workspace's log. As long as it stays the same, so does the dashboard.
func (v Dashboard) Position(ctx context.Context, workspace events.ID) (seq int64, err error) {
	err = v.DB.QueryRow(ctx, `
		select coalesce((select seq from checkpoints where workspace_id = $1 and view = 'runs'), 0)`, workspace).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("position of the dashboard of %s: %w", workspace, err)
	}
	return seq, nil
}

// An Overview is what the dashboard shows of a workspace.
type Overview struct {
	ByStage []int // active runs, by the index of their stage
	Waiting int   // of those, how many wait for a person
	Recent  []Run // whatever moved last, the newest first
}

// Of returns the overview, with at most recent runs.
func (v Dashboard) Of(ctx context.Context, workspace events.ID, recent int) (Overview, error) {
	o := Overview{ByStage: make([]int, len(events.Stages()))}
	rows, _ := v.DB.Query(ctx, `
		select stage, count(*), count(*) filter (where status in ('needs_input', 'awaiting_approval'))
		from runs where workspace_id = $1 and active group by stage`, workspace)
	var stage, n, waiting int
	_, err := pgx.ForEachRow(rows, []any{&stage, &n, &waiting}, func() error {
		o.ByStage[stage] = n
		o.Waiting += waiting
		return nil
	})
	if err != nil {
		return o, fmt.Errorf("count runs of %s: %w", workspace, err)
	}
	rows, _ = v.DB.Query(ctx, `select `+runColumns+` from runs where workspace_id = $1 order by updated_at desc, run_id desc limit $2`, workspace, recent)
	if o.Recent, err = pgx.CollectRows(rows, scanRun); err != nil {
		return o, fmt.Errorf("recent runs of %s: %w", workspace, err)
	}
	return o, nil
}
