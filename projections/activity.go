package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// An Activity is how much happened in a workspace on each of some days.
type Activity struct {
	Head   int64   // the newest number in the log
	Before int64   // the newest number before the first day
	UpTo   []int64 // the newest number by the end of each day
}

// Activity tells of days of 24 hours, the first of which begins at from. It finds where
// they begin and end in the log, and reads nothing of what happened in between.
func (h History) Activity(ctx context.Context, workspace events.ID, from time.Time, days int) (a Activity, err error) {
	if a.Head, _, err = h.Head(ctx, workspace); err != nil {
		return a, err
	}
	b := &pgx.Batch{}
	find := func(into *int64, until time.Time) {
		b.Queue(selectSeqAt, workspace, until.Add(-time.Microsecond), a.Head).QueryRow(func(row pgx.Row) error {
			var high int64
			return row.Scan(into, &high)
		})
	}
	a.UpTo = make([]int64, days)
	find(&a.Before, from)
	for i := range a.UpTo {
		find(&a.UpTo[i], from.Add(time.Duration(i+1)*24*time.Hour))
	}
	if err := h.DB.SendBatch(ctx, b).Close(); err != nil {
		return a, fmt.Errorf("activity of %s: %w", workspace, err)
	}
	return a, nil
}
