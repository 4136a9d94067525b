package fold

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events/store"
)

// A Lag says how far a followed view has come, over all logs together.
type Lag struct {
	View   string
	Taken  int64 // events that it has taken in
	Behind int64 // events that it has not
	Logs   int   // that have such
	Parked int   // events that it has gone on without
}

// Lags returns how far the views of these names have come. It asks for the
// position of each in every log.
func Lags(ctx context.Context, db store.Querier, views ...string) ([]Lag, error) {
	rows, _ := db.Query(ctx, `
		select v.view, coalesce(sum(c.seq), 0)::bigint, coalesce(sum(greatest(l.head - coalesce(c.seq, 0), 0)), 0)::bigint,
			count(*) filter (where l.head > coalesce(c.seq, 0)), (select count(*) from parked p where p.view = v.view)
		from unnest($1::text[]) v (view) left join logs l on true
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = v.view group by 1`, views)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Lag])
	if err != nil {
		return nil, fmt.Errorf("lag of views: %w", err)
	}
	return list, nil
}
