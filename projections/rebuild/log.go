package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/projections/fold"
)

// Log rebuilds the rows of one workspace while reads and writes go on. It folds the log
// into a temporary table and then replaces the rows of the view. During the replacement a followed
// view does not process this log; for an inline view, nothing can be appended to it. Parked events
// are tried again.
func Log(ctx context.Context, db *pgxpool.Pool, v fold.View, workspace events.ID, o Options) (Result, error) {
	r := newRebuild(db, v, "__log", &allViews{progress: o.Progress})
	if err := r.runLog(ctx, workspace, o.limits); err != nil {
		return r.Result, fmt.Errorf("rebuild %s of %s: %w", v.Name(), workspace, err)
	}
	return r.Result, nil
}

func (r *rebuild) runLog(ctx context.Context, workspace events.ID, l limits) error {
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, `select coalesce((select head from logs where workspace_id = $1), 0)`, workspace).Scan(&r.all.total)
	if err != nil || r.all.total == 0 {
		return err
	}
	// Temporary tables belong to this connection and are dropped with it.
	r.parkedIn = "parked__log"
	for table, like := range map[string]string{r.nextTable: r.view.Name(), r.parkedIn: "parked"} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(`create temp table %s (like %s including all)`, table, like)); err != nil {
			return err
		}
		defer conn.Exec(context.WithoutCancel(ctx), `drop table if exists `+table)
	}
	p := newPass(r.db, conn, []*rebuild{r}, l)
	whole, long := p.plan([]stretch{{workspace: workspace, to: r.all.total}})
	if err := p.foldChunks(ctx, append(whole, long...)); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.replaceLog(ctx, tx, workspace) })
	if err != nil {
		return err
	}
	return r.countParked(ctx)
}

// replaceLog replaces the view's rows of a workspace by the new ones. Should this host vanish, the
// timeout ends the transaction on the server: nothing can be appended to the log until then.
func (r *rebuild) replaceLog(ctx context.Context, tx pgx.Tx, workspace events.ID) error {
	if _, err := tx.Exec(ctx, `set local idle_in_transaction_session_timeout = '10s'`); err != nil {
		return err
	}
	live := r.view.Name()
	liveSeq, err := r.lockRows(ctx, tx, workspace)
	if err != nil {
		return err
	}
	if liveSeq > r.reached {
		if err := r.foldOnto(ctx, tx, chunk{{workspace: workspace, from: r.reached, to: liveSeq}}); err != nil {
			return err
		}
	}
	var differ bool
	sum := `select count(*), sum(hashtextextended(t::text, 0)) from %s t where workspace_id = $1`
	compare := fmt.Sprintf(`select (`+asText(sum)+`) is distinct from (`+asText(sum)+`)`, live, r.nextTable)
	err = tx.QueryRow(ctx, compare, workspace).Scan(&differ)
	if err != nil {
		return fmt.Errorf("compare with the live rows: %w", err)
	}
	if differ && liveSeq == r.reached { // otherwise the live rows are only at another position
		r.Differing = []events.ID{workspace}
		if err := r.nameRows(ctx, tx, workspace); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	b.Queue(`delete from `+live+` where workspace_id = $1`, workspace)
	if keys := r.view.PrimaryKey(); len(keys) == 1 { // rows of other workspaces that have the same keys
		b.Queue(fmt.Sprintf(`delete from %s where %s in (select %[2]s from %[3]s)`, live, keys[0], r.nextTable))
	}
	b.Queue(fmt.Sprintf(`insert into %s select * from %s`, live, r.nextTable))
	b.Queue(`delete from parked where workspace_id = $1 and view = $2`, workspace, live)
	b.Queue(`insert into parked (workspace_id, view, seq, kind, error, at)
		select workspace_id, $2, seq, kind, error, at from `+r.parkedIn+` where workspace_id = $1`, workspace, live)
	if r.followed() {
		follow.QueueMove(b, r.view.Name(), []store.Position{{Workspace: workspace, Seq: r.reached}})
	}
	return tx.SendBatch(ctx, b).Close()
}

// lockRows keeps the rows of a workspace unchanged until tx ends, and returns their position. That of a followed view is
// the head if its checkpoint is beyond, of a history that a restore replaced.
func (r *rebuild) lockRows(ctx context.Context, tx pgx.Tx, workspace events.ID) (seq int64, err error) {
	if r.followed() {
		if seq, err = fold.LockCheckpoint(ctx, tx, r.view, workspace); err != nil {
			return 0, err
		}
		if err := tx.QueryRow(ctx, `select least($2, head) from logs where workspace_id = $1`, workspace, seq).Scan(&seq); err != nil {
			return 0, fmt.Errorf("read the head: %w", err)
		}
		return seq, nil
	}
	if err := tx.QueryRow(ctx, `select head from logs where workspace_id = $1 for update`, workspace).Scan(&seq); err != nil {
		return 0, fmt.Errorf("hold the log: %w", err)
	}
	return seq, nil
}

// asText turns a query of two columns into one of a single text value.
func asText(sum string) string { return `select (a.n, a.s)::text from (` + sum + `) a (n, s)` }
