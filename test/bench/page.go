package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/projections"
)

// settled is how often a connection asks before it is measured: PostgreSQL has
// decided by then which plan it keeps for all arguments.
const settled = 10

// single returns a pool of one connection to the database of another.
func single(ctx context.Context, db *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := db.Config()
	config.MinConns, config.MaxConns = 1, 1
	return pgxpool.NewWithConfig(ctx, config)
}

// runsPartial compares the time of a page of active runs beside 100,000 finished
// ones with that beside 1,000, each on one connection that has asked before.
func runsPartial(ctx context.Context, s *site) (result, error) {
	var pages [2]func() (float64, error)
	for i, finished := range []int{1000, scaled(100_000)} {
		db, err := s.database(ctx)
		if err != nil {
			return result{}, err
		}
		defer db.Close()
		r, err := newReader(ctx, db, finished+50, 50)
		if err != nil {
			return result{}, err
		}
		one, err := single(ctx, db)
		if err != nil {
			return result{}, err
		}
		defer one.Close()
		runs := projections.Runs{DB: one}
		page := func(ctx context.Context, _ int) error {
			list, total, err := runs.Page(ctx, projections.RunQuery{Workspace: r.workspace, Active: true, Limit: 25})
			if err == nil && (len(list) != 25 || total != 50) {
				err = fmt.Errorf("%d runs of %d", len(list), total)
			}
			return err
		}
		for range settled {
			if err := page(ctx, 0); err != nil {
				return result{}, err
			}
		}
		pages[i] = func() (float64, error) { return measure(ctx, 1, page) }
	}
	return compare(ctx, pages[0], pages[1]) // how much faster few are, which is how much longer many take
}
