package fold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// Rebuild makes a view anew from the whole log while reads and writes go on:
// it folds every log into a second table, lets that catch up with what was
// appended meanwhile, and then puts it in the place of the first, under a lock
// that lasts for the last few events. progress hears how many events are done
// and how many there were at the start.
//
// A rebuild that is cancelled leaves nothing behind. One that is killed leaves
// its table, and the next one goes on from there: at each commit, the rows that
// the table has of a log are the fold of its events up to the log's row of
// rebuilds, whose position changes in the transaction that changes the rows.
//
// In memory are the rows that the events of one transaction touch, a few pages
// of events, and a position for each log; see [limits].
func Rebuild(ctx context.Context, db *pgxpool.Pool, v View, progress func(done, total int64)) (Rebuilt, error) {
	return rebuildIn(ctx, db, v, foldLimits, progress)
}

func rebuildIn(ctx context.Context, db *pgxpool.Pool, v View, l limits, progress func(done, total int64)) (Rebuilt, error) {
	if v.Kept() == ByAppend {
		// A key moves between logs: their rows fit together at one moment alone.
		l.events = math.MaxInt64
	}
	r := newRebuild(db, v, "__next", l, progress)
	r.table, r.resumable = db, true
	if err := r.run(ctx); err != nil {
		return r.Rebuilt, fmt.Errorf("rebuild %s: %w", v.Name(), err)
	}
	return r.Rebuilt, nil
}

// A Rebuilt is what came of a rebuild.
type Rebuilt struct {
	Events    int64       // that were folded
	Resumed   int64       // events that a rebuild before this one had folded
	Parked    int         // events that could not be, of this view
	Differing []events.ID // logs of which the view had other rows before

	// Rows are those that the view had others of, up to a bound: they are not there
	// any more.
	Rows []Difference
}

// rebuildLimit is how long a rebuild may take in all.
const rebuildLimit = 24 * time.Hour

type rebuild struct {
	Rebuilt
	db        *pgxpool.Pool
	view      View
	next      string              // the table that is being made
	table     beginner            // where that is written
	resumable bool                // positions are kept beside it, for it outlives this process
	limits    limits              // of a transaction
	at        map[events.ID]int64 // how far it has come in each log
	made      map[string]bool     // indexes of the next table
	total     int64
	progress  func(done, total int64)
	lockedBy  uint32 // the server's process that keeps other rebuilds of this view away
}

func newRebuild(db *pgxpool.Pool, v View, suffix string, l limits, progress func(done, total int64)) *rebuild {
	return &rebuild{
		db: db, view: v, next: v.Name() + suffix, limits: l, at: map[events.ID]int64{}, made: map[string]bool{}, progress: progress,
	}
}

func (r *rebuild) run(ctx context.Context) (err error) {
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// What makes and unmakes the table is quick, and is not cut off: a statement
	// that was cancelled may still be carried out.
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildLimit)
	defer cancel()
	if err := r.lock(steady, conn.Conn()); err != nil {
		return err
	}
	defer conn.Exec(steady, `select pg_advisory_unlock(hashtext($1))`, r.next)
	defer r.forget(steady, conn.Conn()) // nothing is left of it after the swap
	if err := r.begin(steady, conn.Conn()); err != nil {
		return err
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
	indexes, err := r.index(ctx, nil)
	if err != nil {
		return err
	}
	// The planner would know nothing of the rows until autovacuum comes by.
	if _, err := r.db.Exec(ctx, `analyze `+r.next); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	if err := r.nearlyCatchUp(ctx); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	if err := r.swap(ctx, indexes); err != nil {
		return err
	}
	return r.countParked(ctx)
}

var errOvertaken = errors.New("another rebuild of this view is under way")

// lock keeps other rebuilds of the view away for as long as conn lives.
func (r *rebuild) lock(ctx context.Context, conn *pgx.Conn) error {
	var alone bool
	if err := conn.QueryRow(ctx, `select pg_try_advisory_lock(hashtext($1))`, r.next).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return errOvertaken
	}
	r.lockedBy = conn.PgConn().PID()
	return nil
}

func (r *rebuild) countParked(ctx context.Context) error {
	return r.db.QueryRow(ctx, `select count(*) from parked where view = $1`, r.view.Name()).Scan(&r.Parked)
}

// begin goes on with the table that a killed rebuild has left, if its rows have
// the form of this one's and no log was set back behind them, or makes another.
func (r *rebuild) begin(ctx context.Context, conn *pgx.Conn) error {
	var left bool
	err := conn.QueryRow(ctx, `
		with columns as (
			select attrelid::regclass::text as name, string_agg(attname || ' ' || format_type(atttypid, atttypmod) || attnotnull, ', ' order by attnum) as form
			from pg_attribute where attrelid in (to_regclass($1), to_regclass($2)) and attnum > 0 and not attisdropped group by 1)
		select count(*) = 2 and count(distinct form) = 1 and (
			select coalesce(bool_and(form = $4 and seq <= coalesce(head, 0)), false) from rebuilds left join logs using (workspace_id) where view = $3)
		from columns`, r.view.Name(), r.next, r.view.Name(), r.view.Form()).Scan(&left)
	if err != nil {
		return fmt.Errorf("look for what a rebuild left: %w", err)
	}
	if left && r.view.Kept() != ByAppend {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.resume(ctx, tx) })
	}
	if err := r.forget(ctx, conn); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`create table %s (like %s including defaults including constraints)`, r.next, r.view.Name()))
	return err
}

// resume finds out how far the rows that are left have come. The server may still
// be at what the killed rebuild asked for last: the lock waits for the end of that.
func (r *rebuild) resume(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `lock table `+r.next+` in access exclusive mode`); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, `select workspace_id, seq from rebuilds where view = $1`, r.view.Name())
	var workspace events.ID
	var seq int64
	_, err := pgx.ForEachRow(rows, []any{&workspace, &seq}, func() error {
		r.at[workspace] = seq
		r.Resumed += seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what a rebuild left: %w", err)
	}
	// Indexes may be there or not: they are made anew.
	if _, err := tx.Exec(ctx, fmt.Sprintf(`alter table %s drop constraint if exists %s_pkey__next`, r.next, r.view.Name())); err != nil {
		return err
	}
	names, _ := tx.Query(ctx, `select indexrelid::regclass::text from pg_index where indrelid = $1::regclass`, r.next)
	indexes, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the indexes that a rebuild left: %w", err)
	}
	for _, name := range indexes {
		if _, err := tx.Exec(ctx, `drop index `+name); err != nil {
			return err
		}
	}
	return nil
}

// forget leaves nothing of a rebuild that is over.
func (r *rebuild) forget(ctx context.Context, conn *pgx.Conn) error {
	for _, sql := range []string{
		`drop table if exists ` + r.next,
		`delete from rebuilds where view = '` + r.view.Name() + `'`,
		`delete from parked where view = '` + r.next + `'`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// parker returns what queues that an event is left out. A view that is not
// followed decides about rights: it has to be whole.
func (r *rebuild) parker(b *pgx.Batch) Park {
	return func(workspace events.ID, seq int64, err error) error {
		if !r.followed() || !poisonous(err) {
			return err
		}
		queuePark(b, r.next, workspace, seq, err)
		return nil
	}
}

func (r *rebuild) followed() bool { return r.view.Kept() == Followed }

// step notes that the rows of a log have come further, which is committed.
func (r *rebuild) step(workspace events.ID, at int64) {
	r.Events += at - r.at[workspace]
	r.at[workspace] = at
	r.progress(r.Resumed+r.Events, max(r.total, r.Resumed+r.Events))
}
