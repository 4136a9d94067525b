package sessions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// Daily counts what was done on a day, by people or to addresses, for all processes
// together. Of each of them and thing there is one row, that of the newest day.
type Daily struct{ DB *pgxpool.Pool }

// Take counts one more of what, unless that was done most times on that day
// already. A clock that is still in the day before counts for the newer day.
func (d Daily) Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (ok bool, err error) {
	done, err := d.DB.Exec(ctx, `
		insert into daily_counts as c (user_id, what, day, count) values ($1, $2, $3, 1)
		on conflict (user_id, what) do update
		set day = greatest(c.day, excluded.day), count = case when c.day < excluded.day then 1 else c.count + 1 end
		where c.day < excluded.day or c.count < $4`, subject, what, day, most)
	if err != nil {
		return false, fmt.Errorf("count %s of %s: %w", what, subject, err)
	}
	return done.RowsAffected() == 1, nil
}

// GiveBack takes one back that came to nothing.
func (d Daily) GiveBack(ctx context.Context, subject events.ID, what string, day time.Time) error {
	_, err := d.DB.Exec(ctx, `
		update daily_counts set count = count - 1 where user_id = $1 and what = $2 and day = $3 and count > 0`, subject, what, day)
	if err != nil {
		return fmt.Errorf("give back %s of %s: %w", what, subject, err)
	}
	return nil
}
