package rebuild

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections/fold"
)

// ViewsIn is [Views] with the given limits of a transaction. It returns the results of all views, also with an error.
func ViewsIn(ctx context.Context, db *pgxpool.Pool, views []fold.View, logs int, most int64, o Options) (list []Result, err error) {
	o.limits = limits{logs, most}
	rebuilds := newRebuilds(db, views, o)
	err = run(ctx, db, rebuilds, o)
	for _, r := range rebuilds {
		list = append(list, r.Result)
	}
	return list, err
}

// RebuildIn rebuilds one view with the given limits of a transaction.
func RebuildIn(ctx context.Context, db *pgxpool.Pool, v fold.View, logs int, most int64,
	progress func(done, total int64)) (Result, error) {
	list, err := ViewsIn(ctx, db, []fold.View{v}, logs, most, Options{Progress: progress})
	return list[0], err
}

// ResumeRebuildIn resumes the rebuild of one view with the given limits of a transaction.
func ResumeRebuildIn(ctx context.Context, db *pgxpool.Pool, v fold.View, logs int, most int64,
	progress func(done, total int64)) (Result, error) {
	list, err := ViewsIn(ctx, db, []fold.View{v}, logs, most, Options{Progress: progress, Resume: true})
	return list[0], err
}

// ResumeRebuild is ResumeRebuildIn with the usual limits.
func ResumeRebuild(ctx context.Context, db *pgxpool.Pool, v fold.View, progress func(done, total int64)) (Result, error) {
	return ResumeRebuildIn(ctx, db, v, foldLimits.logs, foldLimits.events, progress)
}

// RebuildLogIn is [Log] with the given number of events in a transaction.
func RebuildLogIn(ctx context.Context, db *pgxpool.Pool, v fold.View, workspace events.ID, most int64) (Result, error) {
	return Log(ctx, db, v, workspace, Options{limits: limits{1, most}})
}
