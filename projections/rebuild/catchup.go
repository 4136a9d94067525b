package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events/store"
	"svc/projections/fold"
)

// catchUpLimits are the limits while catching up.
var catchUpLimits = limits{logs: 128, events: 1000}

// catchUpTarget is the number of remaining events at which catching up stops and the swap begins.
const catchUpTarget = 100

// grownLogs returns the stretches that logs have beyond the rebuild's positions, ordered by workspace.
func (r *rebuild) grownLogs(ctx context.Context, db store.Querier) (list []stretch, err error) {
	rows, _ := db.Query(ctx, `
		select l.workspace_id, coalesce(r.seq, 0), l.head
		from logs l left join rebuilds r on r.workspace_id = l.workspace_id and r.view = $1
		where l.head > coalesce(r.seq, 0) order by 1`, r.view.Name())
	var s stretch
	_, err = pgx.ForEachRow(rows, []any{&s.workspace, &s.from, &s.to}, func() error { list = append(list, s); return nil })
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
		if err := r.foldOnto(ctx, db, c); err != nil {
			return r.Events - before, err
		}
	}
	return r.Events - before, nil
}

// foldOnto folds stretches onto the rows that the next table has, as [fold.Follower] does, a page in a transaction. If
// the view cannot fold an event, foldOnto halves the page until that event is alone in it, and parks the event.
func (r *rebuild) foldOnto(ctx context.Context, db txBeginner, c chunk) error {
	for _, c := range c.split() {
		for len(c) > 0 {
			p := r.read(ctx, db, c)
			if p.err != nil {
				return p.err
			}
			err := r.foldPage(ctx, db, p)
			if r.mayPark(err) {
				err = r.foldHalves(ctx, db, p.of, err)
			}
			if err != nil {
				return fmt.Errorf("fold %s: %w", p.of, err)
			}
			c = p.rest
		}
	}
	return nil
}

func (r *rebuild) foldPage(ctx context.Context, db txBeginner, p piece) error {
	parked := &pgx.Batch{}
	records, err := r.foldable(p.records, r.parkFunc(parked))
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		move := func(b *pgx.Batch) { queueMove(b, []*rebuild{r}, p.of) }
		if err := fold.FoldPage(ctx, tx, r.view, r.nextTable, records, move); err != nil {
			return err
		}
		return tx.SendBatch(ctx, parked).Close()
	})
	if err == nil {
		r.advance(p.of)
	}
	return err
}

// foldHalves folds each half of stretches that cannot be folded together for the reason why, or parks the only event.
func (r *rebuild) foldHalves(ctx context.Context, db txBeginner, c chunk, why error) error {
	s, middle := c[0], len(c)/2
	switch {
	case len(c) > 1:
		if err := r.foldOnto(ctx, db, c[:middle]); err != nil {
			return err
		}
		return r.foldOnto(ctx, db, c[middle:])
	case s.to-s.from > 1:
		at := s.from + (s.to-s.from)/2
		if err := r.foldOnto(ctx, db, chunk{{workspace: s.workspace, from: s.from, to: at}}); err != nil {
			return err
		}
		return r.foldOnto(ctx, db, chunk{{workspace: s.workspace, from: at, to: s.to}})
	}
	b := &pgx.Batch{}
	if err := r.parkFunc(b)(s.workspace, s.to, why); err != nil {
		return err
	}
	queueMove(b, []*rebuild{r}, c)
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
	if err == nil {
		r.advance(c)
	}
	return err
}
