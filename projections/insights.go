package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
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
	ended, intervened := []any{workspace, before, from, to}, []any{workspace, before, to}
	var ofRepo [2]string // conditions, so that a repository with few runs is found by its index
	if repo != nil {
		ended, intervened = append(ended, *repo), append(intervened, *repo)
		ofRepo = [2]string{` and repo_id = $5`, ` and repo_id = $4`}
	}
	b := &pgx.Batch{}
	b.Queue(fmt.Sprintf(selectOutcomes, ofRepo[0]), ended...).Query(report.scanOutcomes)
	b.Queue(fmt.Sprintf(selectInterventions, ofRepo[1]), intervened...).Query(func(rows pgx.Rows) error {
		var day, n int
		_, err := pgx.ForEachRow(rows, []any{&day, &n}, func() error {
			report.day(day).Interventions = n
			report.window(day >= days).Interventions += n
			return nil
		})
		return err
	})
	if err := v.DB.SendBatch(ctx, b).Close(); err != nil {
		return Report{}, fmt.Errorf("insights of %s: %w", workspace, err)
	}
	return report, nil
}

// selectOutcomes counts the runs that ended in each window, in rows whose day is null, and on each
// day.
const selectOutcomes = `
	select ended_at >= $3, day, count(*), count(*) filter (where merged), count(*) filter (where merged and interventions = 0),
		count(*) filter (where merged and not touched), sum(cost_cents)::bigint,
		percentile_cont(0.5) within group (order by whole_ms) filter (where merged),
		percentile_cont(0.5) within group (order by whole_ms - person_ms - farm_ms) filter (where merged),
		percentile_cont(0.5) within group (order by person_ms) filter (where merged),
		percentile_cont(0.5) within group (order by farm_ms) filter (where merged)
	from (
		select *, status = 'merged' as merged, floor(extract(epoch from ended_at - queued_at) * 1000)::float8 as whole_ms,
			floor(extract(epoch from ended_at - $2) / 86400)::int as day
		from outcomes where workspace_id = $1 and ended_at >= $2 and ended_at < $4 and counted%s
	) o group by grouping sets ((ended_at >= $3), (ended_at >= $3, day))`

const selectInterventions = `
	select floor(extract(epoch from t - $2) / 86400)::int, count(*) from outcomes, unnest(intervened_at) t
	where workspace_id = $1 and last_at >= $2 and t >= $2 and t < $3%s group by 1`

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
