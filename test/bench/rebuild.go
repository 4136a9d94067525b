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
	"svc/projections/rebuild"
)

// fillLogs appends to logs: events of finished runs, ten each. Finished runs
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

// runsPerCommit is how many runs fillLog appends at once.
const runsPerCommit = 100

// fillLog appends n events to a log, rounded down to tens.
func fillLog(ctx context.Context, db *pgxpool.Pool, workspace events.ID, n int) error {
	log := newLog(db, notifyNobody)
	defer log.Close()
	for first := 0; first < n/10; first += runsPerCommit {
		c := &events.Commit{
			Workspace: workspace, At: time.Now(),
			Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem},
		}
		for number := first; number < min(first+runsPerCommit, n/10); number++ {
			c.Writes = append(c.Writes, events.Write{Stream: events.NewID(c.At), Events: finishedRun(number)})
		}
		if _, err := log.Append(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// finishedRun returns the ten events of a run.
func finishedRun(number int) []events.Event {
	repo := events.Repo{ID: events.ID{1, 0x9a, 6: 0x70, 8: 0x80}, Name: "acme/web"}
	return []events.Event{
		events.RunQueued{Repo: repo, IssueNumber: number, IssueTitle: "Fix date parsing"},
		events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		events.RunFactsRecorded{Facts: []string{"The issue names the file at fault."}},
		events.RunStageSucceeded{Stage: events.StageAnalyze, Attempt: 1},
		events.RunStageEntered{Stage: events.StagePlan, Attempt: 1},
		events.RunCostRecorded{Repo: repo.ID, Cents: 12, Source: "model", Quantity: 1},
		events.RunStageSucceeded{Stage: events.StagePlan, Attempt: 1},
		events.RunStageEntered{Stage: events.StageImplementing, Attempt: 1},
		events.RunCostRecorded{Repo: repo.ID, Cents: 40, Source: "model", Quantity: 1},
		events.RunCancelled{Repo: repo.ID, Reason: "No longer needed."},
	}
}

// rebuildAll rebuilds every view.
func rebuildAll(ctx context.Context, db *pgxpool.Pool, n int) (work, error) {
	from := time.Now()
	if err := rebuild.Views(ctx, db, projections.All(), rebuild.Options{}); err != nil {
		return work{}, err
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
		if err := rebuild.Views(ctx, db, []fold.View{v}, rebuild.Options{}); err != nil {
			return work{}, err
		}
	}
	return work{n, time.Since(from)}, ctx.Err()
}
