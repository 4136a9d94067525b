package integrity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	writeInterval   = 5 * time.Second  // between writes of the progress
	overdueRounds   = 3                // intervals without progress after which the comparison is overdue
	minOverdue      = 30 * time.Second // lower limit of that time
	progressTimeout = 10 * time.Second // of one statement
)

// A progress is the position of the comparison. It is stored in one row, so that another process can
// continue after one has ended, and every process sees whether there is progress.
type progress struct {
	Count int64       // of writes by all processes
	Last  events.ID   // the last workspace that was compared in this round; zero at its beginning
	Found []events.ID // workspaces with problems
}

// readProgress returns the zero progress if none was written yet.
func readProgress(ctx context.Context, db *pgxpool.Pool) (p progress, err error) {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	err = db.QueryRow(ctx, `select count, last, found from comparison_progress`).Scan(&p.Count, &p.Last, &p.Found)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("read the progress of the comparison: %w", err)
	}
	return p, nil
}

// writeProgress stores up to which workspace this round has compared, and in which problems were found.
func writeProgress(ctx context.Context, db *pgxpool.Pool, last events.ID, found []events.ID) error {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	_, err := db.Exec(ctx, `
		insert into comparison_progress as p (count, last, found) values (1, $1, coalesce($2::uuid[], '{}'))
		on conflict (one) do update set count = p.count + 1, last = excluded.last, found = excluded.found`, last, found)
	if err != nil {
		return fmt.Errorf("write the progress of the comparison: %w", err)
	}
	return nil
}

// watch reads the progress and notes whether there has been any for some intervals. Time before a failed read does not
// count: a process that cannot read cannot write either.
func (c *Checker) watch(ctx context.Context) (progress, error) {
	p, err := readProgress(ctx, c.db)
	now := time.Now()
	if err != nil || p.Count != c.count || c.movedAt.IsZero() {
		c.count, c.movedAt = p.Count, now
	}
	idle := now.Sub(c.movedAt)
	overdue := idle >= max(overdueRounds*c.every, minOverdue)
	switch before := c.overdue.Swap(overdue); {
	case overdue && !before:
		c.log.ErrorContext(ctx, "no process compares logs, views and keys", "for", idle)
	case before && !overdue && err == nil:
		c.log.InfoContext(ctx, "logs, views and keys are compared again")
	}
	return p, err
}
