package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// Insights answers how well the loop does, from the outcomes of runs.
type Insights struct{ DB *pgxpool.Pool }

// A Count is what is counted in a window of time. Runs are those that ended in
// it, but for those that were cancelled before there was any work.
type Count struct {
	Runs          int
	Merged        int
	Autonomous    int // merged, and no person had to help
	Untouched     int // merged, and no person pushed
	CostCents     int64
	Interventions int        // on any run, also one that still moves
	Cycle         *Durations // medians over the merged runs; nil if there is none
}

// Durations are in milliseconds.
type Durations struct {
	Whole   float64 // from the queue to the merge
	Working float64
	Person  float64 // waiting for one
	Farm    float64 // waiting for it
}

// Get counts the window that begins at from, and the one of the same length
// before it. repo narrows both to a repository unless it is nil.
func (v Insights) Get(ctx context.Context, workspace events.ID, repo *events.ID, from, to time.Time) (window, prior Count, err error) {
	before := from.Add(from.Sub(to))
	fail := func(err error) (Count, Count, error) {
		return Count{}, Count{}, fmt.Errorf("insights of %s: %w", workspace, err)
	}
	into := func(current bool) *Count {
		if current {
			return &window
		}
		return &prior
	}
	rows, _ := v.DB.Query(ctx, `
		select ended_at >= $3, count(*), count(*) filter (where merged), count(*) filter (where merged and interventions = 0),
			count(*) filter (where merged and not touched), sum(cost_cents)::bigint,
			percentile_cont(0.5) within group (order by whole_ms) filter (where merged),
			percentile_cont(0.5) within group (order by whole_ms - person_ms - farm_ms) filter (where merged),
			percentile_cont(0.5) within group (order by person_ms) filter (where merged),
			percentile_cont(0.5) within group (order by farm_ms) filter (where merged)
		from (
			select *, status = 'merged' as merged, floor(extract(epoch from ended_at - queued_at) * 1000)::float8 as whole_ms
			from outcomes where workspace_id = $1 and ended_at >= $2 and ended_at < $4 and counted and ($5::uuid is null or repo_id = $5)
		) o group by 1`, workspace, before, from, to, repo)
	var current bool
	var c Count
	var whole, working, person, farm *float64
	_, err = pgx.ForEachRow(rows, []any{&current, &c.Runs, &c.Merged, &c.Autonomous, &c.Untouched, &c.CostCents,
		&whole, &working, &person, &farm}, func() error {
		if c.Cycle = nil; whole != nil {
			c.Cycle = &Durations{*whole, *working, *person, *farm}
		}
		*into(current) = c
		return nil
	})
	if err != nil {
		return fail(err)
	}
	rows, _ = v.DB.Query(ctx, `
		select t >= $3, count(*) from outcomes, unnest(intervened_at) t
		where workspace_id = $1 and last_at >= $2 and t >= $2 and t < $4 and ($5::uuid is null or repo_id = $5) group by 1`,
		workspace, before, from, to, repo)
	var n int
	_, err = pgx.ForEachRow(rows, []any{&current, &n}, func() error { into(current).Interventions = n; return nil })
	if err != nil {
		return fail(err)
	}
	return window, prior, nil
}
