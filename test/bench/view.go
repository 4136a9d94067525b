package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections"
)

// fillLogs writes events as runs leave them behind, ten each, to logs of ten
// thousand.
func fillLogs(ctx context.Context, db *pgxpool.Pool, n int) error {
	perLog := min(n, 10_000)
	for range n / perLog {
		workspace := events.NewID(time.Now())
		_, err := db.Exec(ctx, `
			insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
			select $1, r * 10 + e.version, gen_random_uuid(), md5($1::text || r)::uuid, e.version, e.kind, 1, now() - interval '1 day' + r * interval '1 second',
				'{"actor":{"type":"system","id":"00000000-0000-0000-0000-000000000000","name":"loop"},"origin":"system","requestId":"","ip":"","userAgent":""}',
				replace(e.data, 'NUMBER', r::text)::json
			from generate_series(0, $2::int / 10 - 1) r cross join (values
				(1, 'run.queued', '{"repo":{"id":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","name":"acme/web"},"issueNumber":NUMBER,"issueTitle":"Fix date parsing"}'),
				(2, 'run.stage_entered', '{"stage":"analyze","attempt":1}'),
				(3, 'run.facts_recorded', '{"facts":["The issue names the file at fault."]}'),
				(4, 'run.stage_succeeded', '{"stage":"analyze","attempt":1}'),
				(5, 'run.stage_entered', '{"stage":"plan","attempt":1}'),
				(6, 'run.cost_recorded', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":12,"source":"model","quantity":1}'),
				(7, 'run.stage_succeeded', '{"stage":"plan","attempt":1}'),
				(8, 'run.stage_entered', '{"stage":"implementing","attempt":1}'),
				(9, 'run.cost_recorded', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":40,"source":"model","quantity":1}'),
				(10, 'run.cancelled', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","reason":"No longer needed."}')
			) e (version, kind, data) order by 1, 2`, workspace, perLog)
		if err != nil {
			return err
		}
		if _, err := db.Exec(ctx, `insert into logs (workspace_id, head, last_at) values ($1, $2, now())`, workspace, perLog); err != nil {
			return err
		}
	}
	_, err := db.Exec(ctx, `vacuum analyze events`)
	return err
}

// rebuildAll makes every view anew, and returns how many events a second that is.
func rebuildAll(ctx context.Context, db *pgxpool.Pool, n int) (float64, error) {
	from := time.Now()
	for _, v := range projections.All() {
		if _, err := projections.Rebuild(ctx, db, v, func(int64, int64) {}); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(from).Seconds(), ctx.Err()
}

// copyAll inserts the rows of every view into a table of the same form.
func copyAll(ctx context.Context, db *pgxpool.Pool, n int) (float64, error) {
	var took time.Duration
	for _, v := range projections.All() {
		name := v.Name()
		if _, err := db.Exec(ctx, fmt.Sprintf(`create table %s_copy (like %s including all)`, name, name)); err != nil {
			return 0, err
		}
		from := time.Now()
		if _, err := db.Exec(ctx, fmt.Sprintf(`insert into %s_copy select * from %s`, name, name)); err != nil {
			return 0, err
		}
		took += time.Since(from)
		if _, err := db.Exec(ctx, fmt.Sprintf(`drop table %s_copy`, name)); err != nil {
			return 0, err
		}
	}
	return float64(n) / took.Seconds(), ctx.Err()
}

const rebuilt = 1_000_000

// rebuildViews compares a rebuild of all views with what it costs to insert the
// same rows.
func rebuildViews(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	if err := fillLogs(ctx, db, rebuilt); err != nil {
		return result{}, err
	}
	return compare(ctx,
		func() (float64, error) { return rebuildAll(ctx, db, rebuilt) },
		func() (float64, error) { return copyAll(ctx, db, rebuilt) })
}

// rebuildGrowth compares the time per event of a large rebuild with that of a
// small one.
func rebuildGrowth(ctx context.Context, s *site) (result, error) {
	sizes := [2]int{rebuilt / 10, rebuilt}
	var dbs [2]*pgxpool.Pool
	for i, n := range sizes {
		db, err := s.database(ctx)
		if err != nil {
			return result{}, err
		}
		defer db.Close()
		if err := fillLogs(ctx, db, n); err != nil {
			return result{}, err
		}
		dbs[i] = db
	}
	return compare(ctx,
		func() (float64, error) { return rebuildAll(ctx, dbs[0], sizes[0]) },
		func() (float64, error) { return rebuildAll(ctx, dbs[1], sizes[1]) })
}

// wake measures how long it takes until what was appended in one process was
// taken in by another.
func wake(ctx context.Context, s *site) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	server, err := s.rest(ctx, db.Config().ConnString())
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	w, closeLog, err := newHinting(ctx, db)
	if err != nil {
		return result{}, err
	}
	defer closeLog()
	var r result
	var p50 []float64
	for range *rounds {
		var took []float64
		for i := range 200 {
			ms, err := w.once(ctx)
			if err != nil {
				return r, err
			}
			if i >= 20 || len(r.Ratios) > 0 { // until it leads, and is warm
				took = append(took, ms)
			}
		}
		p50 = append(p50, median(took))
		r.Ratios = append(r.Ratios, percentile(took, 0.99)/50)
	}
	r.Note = map[string]any{"p50_ms": fmt.Sprintf("%.1f", median(p50)), "p99_ms": fmt.Sprintf("%.1f", 50*median(r.Ratios))}
	return r, nil
}
