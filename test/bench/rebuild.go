package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"svc/events"
	"svc/projections"
	"svc/projections/fold"
)

// fillLogs writes logs as the store would: events of finished runs, ten each. Finished runs
// hold no keys.
func fillLogs(ctx context.Context, db *pgxpool.Pool, logs, perLog int) ([]events.ID, error) {
	workspaces := newIDs(logs)
	var group errgroup.Group
	group.SetLimit(4)
	for _, workspace := range workspaces {
		group.Go(func() error { return fillLog(ctx, db, workspace, perLog) })
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("fill logs: %w", err)
	}
	// autovacuum would otherwise run during a measurement
	for _, sql := range []string{`vacuum analyze events`, `vacuum analyze logs`, `checkpoint`} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("fill logs: %w", err)
		}
	}
	return workspaces, nil
}

// fillLog appends n events to a log, rounded down to tens.
func fillLog(ctx context.Context, db *pgxpool.Pool, workspace events.ID, n int) error {
	_, err := db.Exec(ctx, `
		with log as (
			insert into logs as l (workspace_id, head, last_at) values ($1, $2::int / 10 * 10, now())
			on conflict (workspace_id) do update set head = l.head + excluded.head, last_at = excluded.last_at
			returning workspace_id, head - $2::int / 10 * 10 as before
		)
		insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
		select workspace_id, before + r * 10 + e.version, gen_random_uuid(), md5(workspace_id::text || r)::uuid, e.version, e.kind, 1, now(),
			'{"actor":{"type":"system","name":"system"},"origin":"system"}', replace(e.data, 'NUMBER', r::text)::json
		from log cross join generate_series(0, $2::int / 10 - 1) r cross join (values
			(1, 'run.queued',
				'{"repo":{"id":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","name":"acme/web"},"issueNumber":NUMBER,"issueTitle":"Fix date parsing"}'),
			(2, 'run.stage_entered', '{"stage":"analyze","attempt":1}'),
			(3, 'run.facts_recorded', '{"facts":["The issue names the file at fault."]}'),
			(4, 'run.stage_succeeded', '{"stage":"analyze","attempt":1}'),
			(5, 'run.stage_entered', '{"stage":"plan","attempt":1}'),
			(6, 'run.cost_recorded', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":12,"source":"model","quantity":1}'),
			(7, 'run.stage_succeeded', '{"stage":"plan","attempt":1}'),
			(8, 'run.stage_entered', '{"stage":"implementing","attempt":1}'),
			(9, 'run.cost_recorded', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","cents":40,"source":"model","quantity":1}'),
			(10, 'run.cancelled', '{"repoId":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","reason":"No longer needed."}')
		) e (version, kind, data) order by 2`, workspace, n)
	return err
}

// rebuildAll rebuilds every view.
func rebuildAll(ctx context.Context, db *pgxpool.Pool, n int) (work, error) {
	from := time.Now()
	for _, v := range projections.All() {
		if _, err := fold.Rebuild(ctx, db, v, func(int64, int64) {}); err != nil {
			return work{}, err
		}
	}
	return work{n, time.Since(from)}, ctx.Err()
}

// copyAll inserts the rows of every view into an empty copy of its table.
func copyAll(ctx context.Context, db *pgxpool.Pool, n int) (work, error) {
	var took time.Duration
	for _, v := range projections.All() {
		name := v.Name()
		if _, err := db.Exec(ctx, fmt.Sprintf(`create table %s_copy (like %s including all)`, name, name)); err != nil {
			return work{}, err
		}
		from := time.Now()
		if _, err := db.Exec(ctx, fmt.Sprintf(`insert into %s_copy select * from %s`, name, name)); err != nil {
			return work{}, err
		}
		took += time.Since(from)
		if _, err := db.Exec(ctx, fmt.Sprintf(`drop table %s_copy`, name)); err != nil {
			return work{}, err
		}
	}
	return work{n, took}, ctx.Err()
}

// eventsPerLog is the length of the logs that are rebuilt.
const eventsPerLog = 10_000

// rebuildEvents is the number of events to rebuild or to catch up with.
const rebuildEvents = 1_000_000

// rebuildViews compares a rebuild of all views with inserts of the same rows.
func rebuildViews(ctx context.Context, s *suite) (result, error) {
	db, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer db.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as svc-db sets it
	n := scaled(rebuildEvents)
	if _, err := fillLogs(ctx, db, max(1, n/eventsPerLog), min(n, eventsPerLog)); err != nil {
		return result{}, err
	}
	return compare(ctx,
		func() (work, error) { return rebuildAll(ctx, db, n) },
		func() (work, error) { return copyAll(ctx, db, n) })
}

// rebuildGrowth compares the time per event of a large rebuild with that of a small one.
func rebuildGrowth(ctx context.Context, s *suite) (result, error) {
	sizes := [2]int{scaled(rebuildEvents / 10), scaled(rebuildEvents)}
	var dbs [2]*pgxpool.Pool
	for i, n := range sizes {
		db, err := s.database(ctx)
		if err != nil {
			return result{}, err
		}
		defer db.Close()
		if _, err := fillLogs(ctx, db, max(1, n/eventsPerLog), min(n, eventsPerLog)); err != nil {
			return result{}, err
		}
		dbs[i] = db
	}
	return compare(ctx,
		func() (work, error) { return rebuildAll(ctx, dbs[0], sizes[0]) },
		func() (work, error) { return rebuildAll(ctx, dbs[1], sizes[1]) })
}

// rebuildMany compares the time to rebuild a view from many logs of ten events with that
// from one log of the same events.
func rebuildMany(ctx context.Context, s *suite) (result, error) {
	n := scaled(rebuildEvents)
	one, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer one.Close()
	many, err := s.database(ctx)
	if err != nil {
		return result{}, err
	}
	defer many.Close()
	for _, db := range []*pgxpool.Pool{one, many} {
		if _, err := fillLogs(ctx, db, 1, n); err != nil {
			return result{}, err
		}
	}
	if err := splitLogs(ctx, many); err != nil {
		return result{}, fmt.Errorf("a log for each run: %w", err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as svc-db sets it
	return compare(ctx,
		func() (work, error) { return rebuildOne(ctx, one, "runs", n) },
		func() (work, error) { return rebuildOne(ctx, many, "runs", n) })
}

// splitLogs moves each run to a log of its own.
func splitLogs(ctx context.Context, db *pgxpool.Pool) error {
	for _, sql := range []string{
		`truncate logs`,
		`insert into logs (workspace_id, head, last_at) select stream, count(*), max(at) from events group by 1`,
		`update events set workspace_id = stream, seq = version`,
		`vacuum full analyze events`, `vacuum analyze logs`, `checkpoint`,
	} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// rebuildOne rebuilds a view.
func rebuildOne(ctx context.Context, db *pgxpool.Pool, name string, n int) (work, error) {
	from := time.Now()
	for _, v := range projections.All() {
		if v.Name() != name {
			continue
		}
		if _, err := fold.Rebuild(ctx, db, v, func(int64, int64) {}); err != nil {
			return work{}, err
		}
	}
	return work{n, time.Since(from)}, ctx.Err()
}
