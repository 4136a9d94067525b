package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
	"svc/projections/auditlog"
)

// An Activity says how many events a workspace had on each of several days, by sequence numbers.
type Activity struct {
	Head   int64   // the last number in the log
	Before int64   // the last number before the first day
	UpTo   []int64 // the last number at the end of each day
}

// Activity returns the activity of days of 24 hours, the first of which begins at from. It finds
// each day's bounds by binary search in the log and reads none of the events in between.
func (h History) Activity(ctx context.Context, workspace events.ID, from time.Time, days int) (a Activity, err error) {
	if a.Head, _, err = h.Head(ctx, workspace); err != nil {
		return a, err
	}
	b := &pgx.Batch{}
	find := func(into *int64, until time.Time) {
		b.Queue(auditlog.SelectSeqAt, workspace, until.Add(-time.Microsecond), a.Head).QueryRow(func(row pgx.Row) error {
			var high int64
			return row.Scan(into, &high)
		})
	}
	a.UpTo = make([]int64, days)
	find(&a.Before, from)
	for i := range a.UpTo {
		find(&a.UpTo[i], from.Add(time.Duration(i+1)*24*time.Hour))
	}
	err = h.DB.SendBatch(ctx, b).Close()
	return a, fault.Wrap(err, "read activity of %s", workspace)
}
