package fold

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// RebuildIn is [Rebuild] with the given limits of a transaction.
func RebuildIn(ctx context.Context, db *pgxpool.Pool, v View, logs int, most int64,
	progress func(done, total int64)) (RebuildResult, error) {
	return rebuildIn(ctx, db, v, limits{logs, most}, false, progress)
}

// ResumeRebuildIn is [ResumeRebuild] with the given limits of a transaction.
func ResumeRebuildIn(ctx context.Context, db *pgxpool.Pool, v View, logs int, most int64,
	progress func(done, total int64)) (RebuildResult, error) {
	return rebuildIn(ctx, db, v, limits{logs, most}, true, progress)
}

// RebuildLogIn is [RebuildLog] with the given number of events in a transaction.
func RebuildLogIn(ctx context.Context, db *pgxpool.Pool, v View, workspace events.ID, most int64) (RebuildResult, error) {
	return rebuildLogIn(ctx, db, v, workspace, limits{1, most}, func(int64, int64) {})
}

// TimeOutPagesAfter sets the timeout of pages. That of the shared pass is half of it. Call it before Run.
func (f *Follower) TimeOutPagesAfter(timeout time.Duration) {
	f.pass.timeout = timeout / 2
	f.pass.follow.TimeOutPagesAfter(timeout)
	for _, v := range f.perView {
		v.TimeOutPagesAfter(timeout)
	}
}

// ReadAhead reads the page after a position ahead, and reports whether that succeeded.
func ReadAhead(ctx context.Context, db *pgxpool.Pool, views []View, from store.Position, timeout time.Duration) bool {
	n := startNextPage(ctx, db, views, []store.Position{from}, timeout)
	n.wait()
	return n.records != nil
}
