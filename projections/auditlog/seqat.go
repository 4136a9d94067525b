package auditlog

import (
	"context"
	"fmt"
	"time"

	"svc/events"
)

// SelectSeqAt is the query of [SeqAt]: events low and high of workspace $1 up to $3, at or before time $2 and after it.
const SelectSeqAt = `
	with recursive halve (low, high) as (
		select 0::bigint, $3::bigint + 1
		union all
		select case when e.at <= $2 then m.seq else low end, case when e.at <= $2 then high else m.seq end
		from halve cross join lateral (select low + (high - low) / 2 as seq) m
		cross join lateral (select at from events where workspace_id = $1 and seq = m.seq offset 0) e
		where high - low > 1
	)
	select low, high from halve order by high - low limit 1`

// SeqAt returns the number of the last event at or before a time, up to head; 0 if there is none.
// Times never decrease in a log, so a binary search finds it without an index on times.
func SeqAt(ctx context.Context, db searchable, workspace events.ID, at time.Time, head int64) (int64, error) {
	var low, high int64 // event low is at or before the time, event high is not
	err := db.QueryRow(ctx, SelectSeqAt, workspace, at, head).Scan(&low, &high)
	switch {
	case err != nil:
		return 0, fmt.Errorf("find event of %s at %s: %w", workspace, at, err)
	case high-low > 1:
		return 0, fmt.Errorf("find event of %s at %s: event %d is missing", workspace, at, low+(high-low)/2)
	}
	return low, nil
}
