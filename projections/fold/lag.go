package fold

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events/store"
)

// A Lag says how far a followed view has come, summed over all logs.
type Lag struct {
	View   string
	Taken  int64 // events processed
	Behind int64 // events not yet processed
	Logs   int   // logs that have unprocessed events
	Parked int   // events that the view has parked
}

// Lags returns the lag of the named views. It reads each view's checkpoint in every log.
func Lags(ctx context.Context, db store.Querier, views ...string) ([]Lag, error) {
	rows, _ := db.Query(ctx, `
		select v.view, coalesce(sum(c.seq), 0)::bigint, coalesce(sum(greatest(l.head - coalesce(c.seq, 0), 0)), 0)::bigint,
			count(*) filter (where l.head > coalesce(c.seq, 0)), (select count(*) from parked p where p.view = v.view)
		from unnest($1::text[]) v (view) left join logs l on true
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view group by 1`, views)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lag])
	if err != nil {
		return nil, fmt.Errorf("read lag of views: %w", err)
	}
	return list, nil
}
