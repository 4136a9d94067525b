package runviews

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// Insights answers how well runs do, from their outcomes.
type Insights struct{ DB *pgxpool.Pool }

// A Count has the figures of a window of time. Runs counts those that ended in it, except those
// that were cancelled before any work was done.
type Count struct {
	Runs          int
	Merged        int
	Autonomous    int // merged without any intervention
	Untouched     int // merged, and no person pushed commits
	CostCents     int64
	Interventions int        // on any run, also an active one
	Helped        int        // runs that had them
	Cycle         *Durations // medians over the merged runs; nil if there are none
}

// Durations has medians in milliseconds.
type Durations struct {
	Whole   float64 // from the queue to the merge
	Working float64
	Person  float64 // waiting for a person
	Farm    float64 // waiting for the build farm
}

// A Report has the figures of a window of whole days, and of the window of the same length before
// it.
type Report struct {
	Window, Prior     Count
	ByDay, PriorByDay []Count // by day, from the beginning of each window

	Estimated, Held int // merged runs of the window that were estimated, and those that worked no longer than the 80th percentile
}

const dayLength = 24 * time.Hour

func newReport(days int) Report {
	return Report{ByDay: make([]Count, days), PriorByDay: make([]Count, days)}
}

// day returns the count of a day, numbered from the beginning of the prior window.
func (r *Report) day(n int) *Count {
	if n < len(r.PriorByDay) {
		return &r.PriorByDay[n]
	}
	return &r.ByDay[n-len(r.PriorByDay)]
}

// window returns the count of the current or the prior window.
func (r *Report) window(current bool) *Count {
	if current {
		return &r.Window
	}
	return &r.Prior
}

// Get returns the report on the window of days of 24 hours that begins at from. Unless repo is nil,
// only runs of that repository count.
func (v Insights) Get(ctx context.Context, workspace events.ID, repo *events.ID, from time.Time, days int) (Report, error) {
	report := newReport(days)
	length := time.Duration(days) * dayLength
	before, to := from.Add(-length), from.Add(length)
	args, ofRepo := []any{workspace, before, from, to}, ""
	window, ofOne := []any{workspace, from, to}, ""
	if repo != nil { // a condition, so that a repository with few runs is found by its index
		args, ofRepo = append(args, *repo), ` and repo_id = $5`
		window, ofOne = append(window, *repo), ` and repo_id = $4`
	}
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf(selectOutcomes, ofRepo), args...).Query(report.scanOutcomes)
	b.Queue(fmt.Sprintf(selectInterventions, ofRepo), args...).Query(report.scanInterventions)
	b.Queue(fmt.Sprintf(selectEstimates, ofOne), window...).QueryRow(func(row pgx.Row) error {
		return row.Scan(&report.Held, &report.Estimated)
	})
	err := v.DB.SendBatch(ctx, b).Close()
	return report, fault.Wrap(err, "read insights of %s", workspace)
}

// selectOutcomes counts the runs that ended in each window, in rows whose day is null, and on each
// day. Whole microseconds are exact in float8, with which PostgreSQL is several times as fast as with numeric.
const selectOutcomes = `
	select ended_at >= $3, day, count(*), count(*) filter (where merged), count(*) filter (where merged and interventions = 0),
		count(*) filter (where merged and not touched), sum(cost_cents)::bigint,
		percentile_cont(0.5) within group (order by whole_ms) filter (where merged),
		percentile_cont(0.5) within group (order by whole_ms - person_ms - farm_ms) filter (where merged),
		percentile_cont(0.5) within group (order by person_ms) filter (where merged),
		percentile_cont(0.5) within group (order by farm_ms) filter (where merged)
	from (
		select ended_at, interventions, touched, cost_cents, person_ms::float8, farm_ms::float8, status = 'merged' as merged,
			floor(round(date_part('epoch', ended_at - queued_at) * 1e6) / 1e3) as whole_ms,
			floor(date_part('epoch', ended_at - $2) / 86400)::int as day
		from outcomes where workspace_id = $1 and ended_at >= $2 and ended_at < $4 and counted%s
	) o group by grouping sets ((ended_at >= $3), (ended_at >= $3, day))`

// selectInterventions counts interventions on each day, and the runs whose first of the day, or of the window, each
// was. The times of a run are in order.
const selectInterventions = `
	select day, count(*), count(*) filter (where before is null or before < $2 + day * interval '1 day'),
		count(*) filter (where before is null or before < case when t < $3 then $2 else $3 end)
	from (
		select t, intervened_at[n - 1] as before, floor(date_part('epoch', t - $2) / 86400)::int as day
		from outcomes, unnest(intervened_at) with ordinality as i (t, n)
		where workspace_id = $1 and last_at >= $2 and t >= $2 and t < $4%s
	) o group by day`

// selectEstimates counts the merged runs, of the last thousand that ended in the window, that had an estimate when they
// were queued, and those that worked no longer than its 80th percentile.
const selectEstimates = `
	select count(*) filter (where work_ms <= p80), count(*) from (
		select floor(date_part('epoch', o.ended_at - o.queued_at) * 1000) - o.person_ms as work_ms,
			(r.detail->'estimates'->0->'workMs'->>'p80')::bigint as p80
		from (
			select run_id, status, ended_at, queued_at, person_ms from outcomes
			where workspace_id = $1 and ended_at >= $2 and ended_at < $3%s order by ended_at desc limit 1000
		) o join runs r on r.workspace_id = $1 and r.run_id = o.run_id where o.status = 'merged'
	) e where p80 is not null`

func (r *Report) scanInterventions(rows pgx.Rows) error {
	var day, n, ofDay, ofWindow int
	_, err := pgx.ForEachRow(rows, []any{&day, &n, &ofDay, &ofWindow}, func() error {
		r.day(day).Interventions, r.day(day).Helped = n, ofDay
		w := r.window(day >= len(r.PriorByDay))
		w.Interventions += n
		w.Helped += ofWindow
		return nil
	})
	return err
}

func (r *Report) scanOutcomes(rows pgx.Rows) error {
	var current bool
	var day *int
	var c Count
	var whole, working, person, farm *float64
	_, err := pgx.ForEachRow(rows, []any{&current, &day, &c.Runs, &c.Merged, &c.Autonomous, &c.Untouched, &c.CostCents,
		&whole, &working, &person, &farm}, func() error {
		if c.Cycle = nil; whole != nil {
			c.Cycle = &Durations{*whole, *working, *person, *farm}
		}
		if day == nil {
			*r.window(current) = c
		} else {
			*r.day(*day) = c
		}
		return nil
	})
	return err
}
