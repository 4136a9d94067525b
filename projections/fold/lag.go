package fold

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// A Lag says how far a followed view has come, summed over all logs.
type Lag struct {
	View   string
	Taken  int64 // events processed
	Behind int64 // events not yet processed
	Logs   int   // logs that have unprocessed events
	Parked int   // events that the view has parked
}

// Lags returns the lag of the named views. It reads each view's checkpoint in every log. One beyond the end of its
// log, which a restore leaves, counts as one at the end.
func Lags(ctx context.Context, db store.Querier, views ...string) ([]Lag, error) {
	rows, _ := db.Query(ctx, `
		select v.view, coalesce(sum(taken), 0)::bigint, coalesce(sum(head - taken), 0)::bigint,
			count(*) filter (where head > taken), (select count(*) from parked p where p.view = v.view)
		from unnest($1::text[]) v (view) left join lateral (
			select l.head, least(coalesce(c.seq, 0), l.head) as taken from logs l
			left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view
		) l on true group by 1`, views)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lag])
	return list, fault.Wrap(err, "read lag of views")
}

// Heads returns the last event of each log.
func Heads(ctx context.Context, db store.Querier) (map[events.ID]int64, error) {
	heads := map[events.ID]int64{}
	var workspace events.ID
	var head int64
	rows, _ := db.Query(ctx, `select workspace_id, head from logs`)
	_, err := pgx.ForEachRow(rows, []any{&workspace, &head}, func() error { heads[workspace] = head; return nil })
	return heads, fault.Wrap(err, "read heads of logs")
}

// AwaitFollowed waits until the followed views of a list have processed event seq of a log, but no longer than
// until a time.
func AwaitFollowed(ctx context.Context, db store.Querier, list []View, workspace events.ID, seq int64, until time.Time) error {
	var names []string
	for _, v := range ViewsWithMode(list, Followed) {
		names = append(names, v.Name())
	}
	for pause := minPollPause; seq > 0; pause = min(2*pause, maxPollPause) {
		rows, _ := db.Query(ctx, `
			select view from checkpoints where workspace_id = $1 and view = any($2) and seq >= $3`, workspace, names, seq)
		there, err := pgx.CollectRows(rows, pgx.RowTo[string])
		switch {
		case err != nil:
			return fmt.Errorf("await views of %s: %w", workspace, err)
		case len(there) == len(names) || !time.Now().Before(until):
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
