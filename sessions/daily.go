package sessions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

// Daily counts what people did, or what was done to addresses, on a day, for all processes
// together. There is one row for each subject and action, with the count of its newest day.
type Daily struct{ DB *pgxpool.Pool }

// dailyPruned is how many old counts of others a count deletes: more than the one row that it may
// add, so that old rows become fewer.
const dailyPruned = 10

// dailyKept is the age, in days, up to which counts are kept: those of the day before still matter
// to a process whose clock is behind.
const dailyKept = 2

// Take adds one to the count of what, unless it has reached most on that day. A process
// whose clock is still in the day before counts for the newer day. Take also deletes a few old
// counts; those that another transaction holds are left to a later call.
func (d Daily) Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (ok bool, err error) {
	done, err := d.DB.Exec(ctx, `
		with old as (
			select user_id, what from daily_counts where day < $5 and (user_id, what) <> ($1, $2)
			order by day limit $6 for update skip locked
		), gone as (delete from daily_counts d using old where d.user_id = old.user_id and d.what = old.what)
		insert into daily_counts as c (user_id, what, day, count) values ($1, $2, $3, 1)
		on conflict (user_id, what) do update
		set day = greatest(c.day, excluded.day), count = case when c.day < excluded.day then 1 else c.count + 1 end
		where c.day < excluded.day or c.count < $4`,
		subject, what, day, most, day.AddDate(0, 0, -dailyKept), dailyPruned)
	return done.RowsAffected() == 1, fault.Wrap(err, "count %s of %s", what, subject)
}

// GiveBack subtracts one, for an action that did not happen.
func (d Daily) GiveBack(ctx context.Context, subject events.ID, what string, day time.Time) error {
	_, err := d.DB.Exec(ctx, `
		update daily_counts set count = count - 1 where user_id = $1 and what = $2 and day = $3 and count > 0`, subject, what, day)
	return fault.Wrap(err, "give back %s of %s", what, subject)
}
