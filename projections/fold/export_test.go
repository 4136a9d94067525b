package fold

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// RebuildIn is [Rebuild] with the given limits of a transaction.
func RebuildIn(ctx context.Context, db *pgxpool.Pool, v View, logs int, most int64,
	progress func(done, total int64)) (RebuildResult, error) {
	return rebuildIn(ctx, db, v, limits{logs, most}, progress)
}

// RebuildLogIn is [RebuildLog] with the given number of events in a transaction.
func RebuildLogIn(ctx context.Context, db *pgxpool.Pool, v View, workspace events.ID, most int64) (RebuildResult, error) {
	return rebuildLogIn(ctx, db, v, workspace, limits{1, most}, func(int64, int64) {})
}
