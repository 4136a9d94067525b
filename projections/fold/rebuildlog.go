package fold

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// RebuildLog makes the rows of one workspace anew while reads and writes go on.
// It folds the log beside the view, and then puts the rows in the place of the
// others. Meanwhile a followed view takes in nothing of this log; only for an
// inline one, whose rows change as events are appended, can nothing be appended
// to it. Events that are parked are tried again.
func RebuildLog(ctx context.Context, db *pgxpool.Pool, v View, workspace events.ID, progress func(done, total int64)) (Rebuilt, error) {
	return rebuildLogIn(ctx, db, v, workspace, foldLimits, progress)
}

func rebuildLogIn(ctx context.Context, db *pgxpool.Pool, v View, workspace events.ID, l limits,
	progress func(done, total int64)) (Rebuilt, error) {
	r := newRebuild(db, v, "__log", l, progress)
	if err := r.runLog(ctx, workspace); err != nil {
		return r.Rebuilt, fmt.Errorf("rebuild %s of %s: %w", v.Name(), workspace, err)
	}
	return r.Rebuilt, nil
}

func (r *rebuild) runLog(ctx context.Context, workspace events.ID) error {
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, `select coalesce((select head from logs where workspace_id = $1), 0)`, workspace).Scan(&r.total)
	if err != nil || r.total == 0 {
		return err
	}
	// The table is of this connection alone, and goes with it.
	if _, err := conn.Exec(ctx, fmt.Sprintf(`create temp table %s (like %s including all)`, r.next, r.view.Name())); err != nil {
		return err
	}
	defer conn.Exec(context.WithoutCancel(ctx), `drop table if exists `+r.next)
	r.table = conn
	log := []stretch{{workspace, 0, r.total}}
	for _, plan := range []func([]stretch) []chunk{r.begins, r.goesOn} {
		if err := r.foldChunks(ctx, plan(log)); err != nil {
			return err
		}
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.replaceLog(ctx, tx, workspace) })
	if err != nil {
		return err
	}
	return r.countParked(ctx)
}

// replaceLog puts the rows that were made in the place of those of the view.
func (r *rebuild) replaceLog(ctx context.Context, tx pgx.Tx, workspace events.ID) error {
	live := r.view.Name()
	stands, err := r.hold(ctx, tx, workspace)
	if err != nil {
		return err
	}
	if err := r.takeLog(ctx, tx, workspace, stands); err != nil {
		return err
	}
	var differ bool
	sum := `select count(*), sum(hashtextextended(t::text, 0)) from %s t where workspace_id = $1`
	err = tx.QueryRow(ctx, fmt.Sprintf(`select (`+rowOf(sum)+`) is distinct from (`+rowOf(sum)+`)`, live, r.next), workspace).Scan(&differ)
	if err != nil {
		return fmt.Errorf("compare with the live rows: %w", err)
	}
	if differ && stands == r.at[workspace] { // or it has only not come as far
		r.Differing = []events.ID{workspace}
		if err := r.nameRows(ctx, tx, workspace); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	b.Queue(`delete from `+live+` where workspace_id = $1`, workspace)
	if keys := r.view.PrimaryKey(); len(keys) == 1 { // of another workspace's rows, those that take the place of these
		b.Queue(fmt.Sprintf(`delete from %s where %s in (select %[2]s from %[3]s)`, live, keys[0], r.next))
	}
	b.Queue(fmt.Sprintf(`insert into %s select * from %s`, live, r.next))
	b.Queue(`delete from parked where workspace_id = $1 and view = $2`, workspace, live)
	b.Queue(`update parked set view = $2 where workspace_id = $1 and view = $3`, workspace, live, r.next)
	if r.followed() {
		queueCheckpoint(b, r.view, workspace, r.at[workspace])
	}
	return tx.SendBatch(ctx, b).Close()
}

// hold keeps the rows of a workspace as they are until tx ends, and returns how far
// they have come.
func (r *rebuild) hold(ctx context.Context, tx pgx.Tx, workspace events.ID) (seq int64, err error) {
	if r.followed() {
		return lockCheckpoint(ctx, tx, r.view, workspace)
	}
	if err := tx.QueryRow(ctx, `select head from logs where workspace_id = $1 for update`, workspace).Scan(&seq); err != nil {
		return 0, fmt.Errorf("hold the log: %w", err)
	}
	return seq, nil
}

// rowOf makes one value of the two of a sum.
func rowOf(sum string) string { return `select (a.n, a.s)::text from (` + sum + `) a (n, s)` }
