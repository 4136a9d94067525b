package farmviews

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/query"
)

// BuildFarm summarizes the build farm of a workspace.
type BuildFarm struct{ DB *pgxpool.Pool }

// MaxFarmJobs bounds the jobs of a day that are counted. The ones that ended last are counted.
const MaxFarmJobs = 5000

// A FarmDay counts the jobs that ended within 24 hours.
type FarmDay struct {
	Jobs    int
	ByState map[events.JobState]int
	Wait    *time.Duration // median time from the queue to a runner; nil if no runner had any job
}

// A FarmSummary is the present state of a build farm.
type FarmSummary struct {
	Slots       RunnerSlots
	Queued      int
	OldestSince *time.Time // when the job that waits longest was last queued
	Day, Prior  FarmDay    // the last 24 hours, and the 24 hours before
}

const selectFarmDay = `
	select state, count(*), percentile_cont(0.5) within group (order by extract(epoch from leased_at - queued_at)::float8)
		filter (where leased_at >= queued_at)
	from (select state, leased_at, queued_at from jobs where workspace_id = $1 and ` + jobsEnded + ` and finished_at > $2 and finished_at <= $3
		order by finished_at desc, job_id desc limit $4) d group by grouping sets ((), (state))`

// selectOldestQueued returns when the job that waits longest was queued. Jobs that were never with a
// runner were queued in the order of their ids, so it is the first of those, or one before it that was
// queued again.
const selectOldestQueued = `
	select min(queued_at) from jobs
	where workspace_id = $1 and ` + jobsActive + ` and state = 'queued' and job_id <= coalesce((
		select job_id from jobs where workspace_id = $1 and ` + jobsActive + ` and state = 'queued' and epoch = 0 order by job_id limit 1),
		'ffffffff-ffff-ffff-ffff-ffffffffffff')`

// Get returns the summary at time now.
func (v BuildFarm) Get(ctx context.Context, workspace events.ID, now time.Time) (f FarmSummary, err error) {
	b := &pgx.Batch{}
	QueueCounts(b, workspace, &f.Slots, &f.Queued)
	b.Queue(selectOldestQueued, workspace).QueryRow(func(row pgx.Row) error { return row.Scan(&f.OldestSince) })
	day := func(into *FarmDay, to time.Time) {
		b.Queue(selectFarmDay, workspace, to.Add(-24*time.Hour), to, MaxFarmJobs).Query(into.scan)
	}
	day(&f.Day, now)
	day(&f.Prior, now.Add(-24*time.Hour))
	err = v.DB.SendBatch(ctx, b).Close()
	return f, fault.Wrap(err, "read build farm of %s", workspace)
}

// QueueCounts queues reading the capacity of a workspace's runners, and how many jobs wait for one.
func QueueCounts(b *pgx.Batch, workspace events.ID, slots *RunnerSlots, queued *int) {
	b.Queue(selectSlots, workspace).QueryRow(func(row pgx.Row) error { return row.Scan(slots.scanTargets()...) })
	b.Queue(selectCounts, workspace).Query(func(rows pgx.Rows) error {
		counts, _, err := query.Optional[JobCounts](rows, "counts of jobs")
		*queued = counts.Queued
		return err
	})
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
