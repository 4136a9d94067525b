package fold

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Status is how a view is doing, or something else that follows the logs and
// has no rows to make anew: its Wanted is zero.
type Status struct {
	Name      string
	Followed  bool
	Lag       int64 // events that a followed view has still to take in
	Behind    int   // logs that have such
	Position  int64 // events that it has taken in, of all logs
	Parked    int
	Form      int // of its rows
	Wanted    int // the form that this build gives them
	RebuiltAt *time.Time
}

// Survey says how views are doing, and what else follows the logs under
// these names.
func Survey(ctx context.Context, db *pgxpool.Pool, views []View, others ...string) (list []Status, err error) {
	for _, v := range views {
		list = append(list, Status{Name: v.Name(), Followed: v.Kept() == Followed, Wanted: v.Form(), Form: 1})
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
		if !s.Followed { // it is never behind
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
