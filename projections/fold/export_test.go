package fold

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events/store"
)

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
