package fold

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
	"svc/events/store"
)

// beginner is a pool, or a transaction, in which it begins a nested one.
type beginner interface {
	store.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// catchUpLimits are those of following.
var catchUpLimits = limits{logs: 128, events: page}

// little is how many events may be left to take in while the view is held.
const little = 100

// grown returns what the logs have that the table has not, in the order of the logs.
func (r *rebuild) grown(ctx context.Context, db store.Querier) (list []stretch, err error) {
	rows, _ := db.Query(ctx, `
		select l.workspace_id, coalesce(r.seq, 0), l.head
		from logs l left join rebuilds r on r.workspace_id = l.workspace_id and r.view = $1
		where l.head > coalesce(r.seq, 0) order by 1`, r.view.Name())
	var s stretch
	_, err = pgx.ForEachRow(rows, []any{&s.workspace, &s.from, &s.to}, func() error {
		if s.from != r.at[s.workspace] {
			return errOvertaken
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find logs that have grown: %w", err)
	}
	return list, nil
}

// nearlyCatchUp takes in what was appended since until little is left.
func (r *rebuild) nearlyCatchUp(ctx context.Context) error {
	for range 10 {
		if n, err := r.catchUp(ctx, r.db); err != nil || n < little {
			return err
		}
	}
	return nil
}

// catchUp takes in what was appended since. It returns how many events that were.
func (r *rebuild) catchUp(ctx context.Context, db beginner) (n int64, err error) {
	list, err := r.grown(ctx, db)
	if err != nil {
		return 0, err
	}
	before := r.Events
	for _, c := range together(list, catchUpLimits) {
		if err := r.takeIn(ctx, db, c); err != nil {
			return r.Events - before, err
		}
	}
	return r.Events - before, nil
}

// takeIn takes in stretches of logs in one transaction. If something is wrong with
// an event each log is taken in by itself.
func (r *rebuild) takeIn(ctx context.Context, db beginner, c chunk) error {
	if len(c) > 1 {
		list, err := r.readTogether(ctx, db, c)
		if err == nil {
			err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				return TakeIn(ctx, tx, r.view, r.next, list, func(b *pgx.Batch) { r.queueMove(b, c) })
			})
		}
		if err == nil {
			for _, s := range c {
				r.step(s.workspace, s.to)
			}
			return nil
		}
		if _, ok := errors.AsType[*pgconn.PgError](err); ok && !poisonous(err) || ctx.Err() != nil {
			return err
		}
	}
	for _, s := range c {
		if err := r.takeLog(ctx, db, s.workspace, s.to); err != nil {
			return err
		}
	}
	return nil
}

// takeLog takes in a log up to an event.
func (r *rebuild) takeLog(ctx context.Context, db beginner, workspace events.ID, to int64) error {
	for r.at[workspace] < to {
		if err := r.takePage(ctx, db, stretch{workspace, r.at[workspace], to}, page); err != nil {
			return fmt.Errorf("log %s: %w", workspace, err)
		}
	}
	return nil
}

// takePage takes in the next events of a log, as [Follower] does.
func (r *rebuild) takePage(ctx context.Context, db beginner, s stretch, limit int) error {
	left := &pgx.Batch{}
	park := r.parker(left)
	var refused error
	records, at, err := readOn(ctx, db, r.view, s.workspace, s.from, int(min(int64(limit), s.to-s.from)), func(seq int64, err error) {
		refused = park(s.workspace, seq, err)
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return refused
	case at == s.from:
		return s.missing()
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			return TakeIn(ctx, tx, r.view, r.next, records, func(*pgx.Batch) {})
		})
		if poisonous(err) && at == s.from+1 {
			err = park(s.workspace, at, err)
		}
		if err != nil {
			return err
		}
		r.queueMove(left, []stretch{{s.workspace, s.from, at}})
		return tx.SendBatch(ctx, left).Close()
	})
	if poisonous(err) && at > s.from+1 && r.followed() {
		return r.takePage(ctx, db, s, int(at-s.from)/2)
	}
	if err == nil {
		r.step(s.workspace, at)
	}
	return err
}
