package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/projections/runviews"
)

// warmUpQueries is the number of queries after which PostgreSQL has chosen between a
// generic plan and one for each set of arguments.
const warmUpQueries = 10

// singleConnection returns a pool of one connection to the database of db.
func singleConnection(ctx context.Context, db *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := db.Config()
	config.MinConns, config.MaxConns = 1, 1
	return pgxpool.NewWithConfig(ctx, config)
}

// runsPartial compares the time of a page of active runs beside 100,000 finished ones
// with that beside 1,000, each on one warmed-up connection.
func runsPartial(ctx context.Context, s *suite) (result, error) {
	var pages [2]turnFunc
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
		one, err := singleConnection(ctx, db)
		if err != nil {
			return result{}, err
		}
		defer one.Close()
		runs := runviews.Runs{DB: one}
		page := func(ctx context.Context, _ int) error {
			list, total, err := runs.Page(ctx, runviews.RunQuery{Workspace: r.workspace, Active: true, Limit: 25})
			if err == nil && (len(list) != 25 || total != 50) {
				err = fmt.Errorf("%d runs of %d", len(list), total)
			}
			return err
		}
		for range warmUpQueries {
			if err := page(ctx, 0); err != nil {
				return result{}, err
			}
		}
		pages[i] = func() (work, error) { return measure(ctx, 1, page) }
	}
	return compare(ctx, pages[0], pages[1])
}
