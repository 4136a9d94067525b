package fold

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Status describes a view, or another follower of the logs. The latter has no rows to rebuild,
// and its Wanted is zero.
type Status struct {
	Name      string
	Followed  bool
	Lag       int64 // events that a followed view has not processed
	Behind    int   // logs that have such events
	Position  int64 // events processed, over all logs
	Parked    int   // events skipped
	Form      int   // form of the stored rows
	Wanted    int   // form that this build writes
	RebuiltAt *time.Time
}

// Survey returns the status of views and of the named other followers.
func Survey(ctx context.Context, db *pgxpool.Pool, views []View, others ...string) (list []Status, err error) {
	for _, v := range views {
		list = append(list, Status{Name: v.Name(), Followed: v.Mode() == Followed, Wanted: v.Form(), Form: 1})
	}
	for _, name := range others {
		list = append(list, Status{Name: name, Followed: true})
	}
	for i := range list {
		s := &list[i]
		rows, _ := db.Query(ctx, `select form, rebuilt_at from views where name = $1`, s.Name)
		if _, err := pgx.ForEachRow(rows, []any{&s.Form, &s.RebuiltAt}, func() error { return nil }); err != nil {
			return nil, fmt.Errorf("survey view %s: %w", s.Name, err)
		}
		if !s.Followed { // an inline view never lags
			continue
		}
		lags, err := Lags(ctx, db, s.Name)
		if err != nil {
			return nil, fmt.Errorf("survey view %s: %w", s.Name, err)
		}
		s.Lag, s.Behind, s.Position, s.Parked = lags[0].Behind, lags[0].Logs, lags[0].Taken, lags[0].Parked
	}
	return list, nil
}
