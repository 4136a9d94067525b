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

// txBeginner is a pool or a transaction; in the latter Begin starts a nested transaction.
type txBeginner interface {
	store.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// catchUpLimits are the limits while catching up.
var catchUpLimits = limits{logs: 128, events: page}

// catchUpTarget is the number of remaining events at which catching up stops and the swap begins.
const catchUpTarget = 100

// grownLogs returns the stretches that logs have beyond the rebuild's positions, ordered by workspace.
func (r *rebuild) grownLogs(ctx context.Context, db store.Querier) (list []stretch, err error) {
	rows, _ := db.Query(ctx, `
		select l.workspace_id, coalesce(r.seq, 0), l.head
		from logs l left join rebuilds r on r.workspace_id = l.workspace_id and r.view = $1
		where l.head > coalesce(r.seq, 0) order by 1`, r.view.Name())
	var s stretch
	_, err = pgx.ForEachRow(rows, []any{&s.workspace, &s.from, &s.to}, func() error {
		if s.from != r.positions[s.workspace] {
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

// nearlyCatchUp folds newly appended events until fewer than catchUpTarget remain, in ten rounds at most.
func (r *rebuild) nearlyCatchUp(ctx context.Context) error {
	for range 10 {
		if n, err := r.catchUp(ctx, r.db); err != nil || n < catchUpTarget {
			return err
		}
	}
	return nil
}

// catchUp folds newly appended events once and returns their number.
func (r *rebuild) catchUp(ctx context.Context, db txBeginner) (n int64, err error) {
	list, err := r.grownLogs(ctx, db)
	if err != nil {
		return 0, err
	}
	before := r.Events
	for _, c := range groupIntoChunks(list, catchUpLimits) {
		if err := r.foldTogether(ctx, db, c); err != nil {
			return r.Events - before, err
		}
	}
	return r.Events - before, nil
}

// foldTogether folds stretches in one transaction. If they do not fit into a page, or reading or folding
// fails, it folds each log by itself.
func (r *rebuild) foldTogether(ctx context.Context, db txBeginner, c chunk) error {
	if len(c) > 1 {
		list, rest, err := r.readTogether(ctx, db, c)
		if err == nil && len(rest) == 0 {
			err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				return FoldPage(ctx, tx, r.view, r.nextTable, list, func(b *pgx.Batch) { r.queueMove(b, c) })
			})
		}
		if err == nil && len(rest) == 0 {
			for _, s := range c {
				r.advance(s.workspace, s.to)
			}
			return nil
		}
		if _, ok := errors.AsType[*pgconn.PgError](err); ok && !causedByEvent(err) || ctx.Err() != nil {
			return err
		}
	}
	for _, s := range c {
		if err := r.catchUpLog(ctx, db, s.workspace, s.to); err != nil {
			return err
		}
	}
	return nil
}

// catchUpLog folds a log up to a position, page by page.
func (r *rebuild) catchUpLog(ctx context.Context, db txBeginner, workspace events.ID, to int64) error {
	for r.positions[workspace] < to {
		if err := r.catchUpPage(ctx, db, stretch{workspace, r.positions[workspace], to}, page); err != nil {
			return fmt.Errorf("log %s: %w", workspace, err)
		}
	}
	return nil
}

// catchUpPage folds the next events of a log and parks a poison event, as [Follower] does.
func (r *rebuild) catchUpPage(ctx context.Context, db txBeginner, s stretch, limit int) error {
	left := &pgx.Batch{}
	park := r.parkFunc(left)
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
			return FoldPage(ctx, tx, r.view, r.nextTable, records, func(*pgx.Batch) {})
		})
		if causedByEvent(err) && at == s.from+1 {
			err = park(s.workspace, at, err)
		}
		if err != nil {
			return err
		}
		r.queueMove(left, []stretch{{s.workspace, s.from, at}})
		return tx.SendBatch(ctx, left).Close()
	})
	if causedByEvent(err) && at > s.from+1 && r.followed() {
		return r.catchUpPage(ctx, db, s, int(at-s.from)/2)
	}
	if err == nil {
		r.advance(s.workspace, at)
	}
	return err
}
