package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Standing is how a view is doing.
type Standing struct {
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

// Survey says how every view is doing.
func Survey(ctx context.Context, db *pgxpool.Pool) (list []Standing, err error) {
	for _, v := range All() {
		s := Standing{Name: v.Name(), Followed: (&rebuild{view: v}).followed(), Wanted: v.form(), Form: 1}
		b := &pgx.Batch{}
		b.Queue(`
			select coalesce(sum(l.head - coalesce(c.seq, 0)), 0), count(*) filter (where l.head > coalesce(c.seq, 0)), coalesce(sum(c.seq), 0)
			from logs l left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1`, v.Name(),
		).QueryRow(func(row pgx.Row) error { return row.Scan(&s.Lag, &s.Behind, &s.Position) })
		b.Queue(`select count(*) from parked where view = $1`, v.Name()).QueryRow(func(row pgx.Row) error { return row.Scan(&s.Parked) })
		b.Queue(`select form, rebuilt_at from views where name = $1`, v.Name()).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&s.Form, &s.RebuiltAt}, func() error { return nil })
			return err
		})
		if err := db.SendBatch(ctx, b).Close(); err != nil {
			return nil, fmt.Errorf("survey view %s: %w", v.Name(), err)
		}
		if !s.Followed { // it is never behind
			s.Lag, s.Behind, s.Position = 0, 0, 0
		}
		list = append(list, s)
	}
	return list, nil
}
