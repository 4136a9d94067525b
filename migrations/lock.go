package migrations

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	lockKey           = 0x5356_4344 // one lock per database; below 2^32, so that pg_locks shows it in objid
	lockRetryInterval = 100 * time.Millisecond
)

// lock keeps other runs out of the database until unlock is called.
//
// It polls instead of waiting in one statement: a waiting statement holds a snapshot, and
// create index concurrently in the run that holds the lock would wait for that snapshot,
// which is a deadlock.
func (s Set) lock(ctx context.Context, conn *pgx.Conn, out io.Writer) (unlock func(), err error) {
	limit := cmp.Or(s.LockWait, time.Minute)
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(lockRetryInterval)
	defer tick.Stop()
	for tries := 0; ; tries++ {
		var locked bool
		if err := conn.QueryRow(ctx, `select pg_try_advisory_lock($1::bigint)`, lockKey).Scan(&locked); err != nil {
			return nil, fmt.Errorf("take the migration lock: %w", err)
		}
		if locked {
			return func() { release(ctx, conn) }, nil
		}
		if tries == 0 {
			fmt.Fprintf(out, "Waiting for another run of svc-db to end ...\n")
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another run of svc-db holds the migration lock of this database (%s) and did not end within %s; "+
				"nothing was changed: start again when it has ended", holder(ctx, conn), limit)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the migration lock: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// release releases the lock even if ctx has ended. If it fails, the session has ended and
// its locks with it.
func release(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	_, _ = conn.Exec(ctx, `select pg_advisory_unlock($1::bigint)`, lockKey)
}

// holder describes the session that holds the lock.
func holder(ctx context.Context, conn *pgx.Conn) string {
	var who string
	err := conn.QueryRow(ctx, `
		select 'backend pid ' || pid from pg_locks
		where locktype = 'advisory' and granted and classid = 0 and objid = $1::bigint::oid
		and database = (select oid from pg_database where datname = current_database())`, lockKey).Scan(&who)
	if err != nil {
		return "it has just let go"
	}
	return who
}
