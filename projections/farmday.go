package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// BuildFarm sums up the build farm of a workspace.
type BuildFarm struct{ DB *pgxpool.Pool }

// FarmJobsCounted is how many jobs of a day are counted at most, those that ended last.
const FarmJobsCounted = 5000

// A FarmDay is what became of the jobs that ended in 24 hours.
type FarmDay struct {
	Jobs    int
	ByState map[events.JobState]int
	Wait    *time.Duration // in the middle, from the queue to a runner; nil if no runner had any
}

// A FarmSummary is how the build farm is.
type FarmSummary struct {
	Slots       RunnerSlots
	Queued      int
	OldestSince *time.Time // when the job that was submitted first, of those that wait, began to
	Day, Prior  FarmDay    // the last 24 hours, and those before
}

const selectFarmDay = `
	select state, count(*), percentile_cont(0.5) within group (order by extract(epoch from leased_at - queued_at)::float8)
		filter (where leased_at >= queued_at)
	from (select state, leased_at, queued_at from jobs where workspace_id = $1 and ` + jobsEnded + ` and finished_at > $2 and finished_at <= $3
		order by finished_at desc, job_id desc limit $4) d group by grouping sets ((), (state))`

// Get sums the farm up as it is at a time.
func (v BuildFarm) Get(ctx context.Context, workspace events.ID, now time.Time) (f FarmSummary, err error) {
	b := &pgx.Batch{}
	b.Queue(selectSlots, workspace).QueryRow(func(row pgx.Row) error { return row.Scan(f.Slots.into()...) })
	b.Queue(selectCounts, workspace).Query(func(rows pgx.Rows) error {
		counts, _, err := optional[JobCounts](rows, "counts of jobs")
		f.Queued = counts.Queued
		return err
	})
	b.Queue(`
		select queued_at from jobs where workspace_id = $1 and `+jobsActive+` and state = 'queued'
		order by job_id limit 1`, workspace).Query(func(rows pgx.Rows) error {
		var since time.Time
		_, err := pgx.ForEachRow(rows, []any{&since}, func() error { f.OldestSince = &since; return nil })
		return err
	})
	day := func(into *FarmDay, to time.Time) {
		b.Queue(selectFarmDay, workspace, to.Add(-24*time.Hour), to, FarmJobsCounted).Query(into.scan)
	}
	day(&f.Day, now)
	day(&f.Prior, now.Add(-24*time.Hour))
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return f, fmt.Errorf("build farm of %s: %w", workspace, err)
	}
	return f, nil
}

func (d *FarmDay) scan(rows pgx.Rows) error {
	d.ByState = map[events.JobState]int{}
	var state *events.JobState
	var n int
	var wait *float64
	_, err := pgx.ForEachRow(rows, []any{&state, &n, &wait}, func() error {
		if state != nil {
			d.ByState[*state] = n
			return nil
		}
		if d.Jobs = n; wait != nil {
			d.Wait = new(time.Duration(*wait * float64(time.Second)))
		}
		return nil
	})
	return err
}
