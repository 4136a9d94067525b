// Package rebuild rebuilds views from the logs while reads and writes go on.
//
// [Views] reads each log once and folds it into a second table of every view, without indexes. The
// next pages are read and decoded while one is folded and written. PostgreSQL leaves out the kinds that
// no view folds, and counts them, so that a missing event is noticed. Up to 1,000 logs or 20,000 events
// share a transaction. A longer log takes several; they find existing rows by the primary key, created by
// then. Each table is then indexed and analyzed, and catches up. Under an exclusive lock with a lock
// timeout of 500 ms, it folds the last events and replaces the view. Index names, owner and grants become
// those of the old table. While other users hold the view without a pause, the swap is retried for half an
// hour.
//
// At each commit the second table's rows of a log are the fold of its events up to the log's position in
// table rebuilds, which is moved by compare-and-swap in the same transaction. So a killed rebuild can be
// resumed, by the version that began it, if the database is trusted: no seal covers those rows. Two
// rebuilds never write to one table: one connection holds an advisory lock all the time. If that
// connection is lost, the first rebuild finds a position that it has not moved, or no lock at the swap,
// and fails.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events"
	"svc/projections/fold"
)

// Options of [Views].
type Options struct {
	// Resume goes on with the tables that a killed rebuild of the same version left, where there are any.
	// Nothing authenticates their rows: whoever can write to the database can change them, and they
	// become the view.
	Resume bool
	// Progress, unless nil, is called with the number of events done and the number at the start, each
	// the mean of the views.
	Progress func(done, total int64)
	// Done, unless nil, is called for each view when its rows are replaced.
	Done func(Result)

	limits limits // unless zero, of tests
}

// A Result is the result of rebuilding a view.
type Result struct {
	View      string
	Events    int64       // events folded
	Resumed   int64       // events that an earlier, killed rebuild had folded
	Parked    int         // events of the view that are parked
	Differing []events.ID // workspaces whose rows differed before the rebuild

	// Rows lists the rows that differed, up to maxNamedRows. They no longer exist in the view.
	Rows []fold.Difference
}

// timeout is the time that a rebuild may take in all.
const timeout = 24 * time.Hour

// Views rebuilds views from all logs. A view that cannot be completed when all logs are folded, for instance
// because its table is in use, does not prevent the others. A rebuild that is cancelled leaves nothing behind.
// One that is killed leaves the tables of the views that are not swapped yet, which another one can complete
// or drop; see [Options].
//
// Memory holds the rows that the events of one transaction touch, and a few pages of events.
func Views(ctx context.Context, db *pgxpool.Pool, views []fold.View, o Options) error {
	return run(ctx, db, newRebuilds(db, views, o), o)
}

func newRebuilds(db *pgxpool.Pool, views []fold.View, o Options) (list []*rebuild) {
	all := &allViews{progress: o.Progress}
	for _, v := range views {
		r := newRebuild(db, v, "__next", all)
		r.resumable, r.resumes = true, o.Resume
		list = append(list, r)
	}
	return list
}

func run(ctx context.Context, db *pgxpool.Pool, list []*rebuild, o Options) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	defer conn.Release()
	// Creating and dropping tables is quick and must not be cancelled: the server may still carry
	// out a statement whose context has ended.
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for _, r := range list {
		if err := r.lock(steady, conn.Conn()); err != nil {
			return fmt.Errorf("rebuild %s: %w", r.view.Name(), err)
		}
		defer conn.Exec(steady, `select pg_advisory_unlock(hashtext($1))`, r.nextTable)
		defer r.dropLeftovers(steady, conn.Conn()) // has nothing to do after the swap
	}
	for _, r := range list {
		if err := r.prepareTable(steady, conn.Conn()); err != nil {
			return fmt.Errorf("rebuild %s: %w", r.view.Name(), err)
		}
	}
	for _, group := range byPosition(list) {
		if err := newPass(db, db, group, o.limits).run(ctx); err != nil {
			return fmt.Errorf("rebuild %s: %w", names(group), err)
		}
		if err := finish(ctx, group, o.Done); err != nil {
			return err
		}
	}
	return nil
}

// byPosition groups the rebuilds that go on from the same positions, which share a pass.
func byPosition(list []*rebuild) (groups [][]*rebuild) {
	at := map[string]int{}
	for _, r := range list {
		i, ok := at[r.resumedAt]
		if !ok {
			i, at[r.resumedAt], groups = len(groups), len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func names(list []*rebuild) string {
	var names []string
	for _, r := range list {
		names = append(names, r.view.Name())
	}
	return strings.Join(names, ", ")
}

// finish completes views whose tables have nearly all events, one after the other, and reports each to done.
func finish(ctx context.Context, list []*rebuild, done func(Result)) error {
	var errs []error
	for _, r := range list {
		if err := r.finish(ctx); err != nil {
			errs = append(errs, fmt.Errorf("rebuild %s: %w", r.view.Name(), err))
		} else if done != nil {
			done(r.Result)
		}
	}
	return errors.Join(errs...)
}

// rebuild is the rebuild of one view.
type rebuild struct {
	Result
	reader
	view      fold.View
	nextTable string // name of the table that is being made
	parkedIn  string // table of its parked events, whose view is nextTable
	resumable bool   // positions are stored in table rebuilds, because the next table outlives this process
	resumes   bool   // go on with the table that a killed rebuild left
	resumedAt string // identifies the positions that the killed rebuild had reached
	indexed   map[string]bool
	all       *allViews
	lockedBy  uint32 // backend process that holds the advisory lock

	loader  fold.Loader        // of a log that goes on in the next transaction, if the view is [fold.ByAppend]
	behind  map[events.ID]bool // logs that are left to catchUp, because PostgreSQL refused a row
	reached int64              // position in the log that was folded last
}

func newRebuild(db *pgxpool.Pool, v fold.View, suffix string, all *allViews) *rebuild {
	all.views++
	return &rebuild{
		Result: Result{View: v.Name()}, reader: reader{db, slices.DeleteFunc(events.Kinds(), v.Folds)},
		view: v, nextTable: v.Name() + suffix, parkedIn: "parked",
		indexed: map[string]bool{}, all: all, behind: map[events.ID]bool{},
	}
}

// finish makes the view of the next table.
func (r *rebuild) finish(ctx context.Context) error {
	indexes, err := r.createIndexes(ctx, nil)
	if err != nil {
		return err
	}
	// Without this the planner has no statistics until autovacuum runs.
	if _, err := r.db.Exec(ctx, `analyze `+r.nextTable); err != nil {
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

// lock takes an advisory lock that keeps other rebuilds of the view away while conn lives.
func (r *rebuild) lock(ctx context.Context, conn *pgx.Conn) error {
	var locked bool
	if err := conn.QueryRow(ctx, `select pg_try_advisory_lock(hashtext($1))`, r.nextTable).Scan(&locked); err != nil {
		return err
	}
	if !locked {
		return errOvertaken
	}
	r.lockedBy = conn.PgConn().PID()
	return nil
}

func (r *rebuild) countParked(ctx context.Context) error {
	return r.db.QueryRow(ctx, `select count(*) from parked where view = $1`, r.view.Name()).Scan(&r.Parked)
}

// prepareTable creates the next table, unless it is to resume and can.
func (r *rebuild) prepareTable(ctx context.Context, conn *pgx.Conn) error {
	left, err := r.canResume(ctx, conn)
	switch {
	case err != nil:
		return err
	case left:
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return r.resume(ctx, tx) })
	}
	if err := r.dropLeftovers(ctx, conn); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`create table %s (like %s including defaults including constraints)`, r.nextTable, r.view.Name()))
	return err
}

// canResume reports whether a killed rebuild of this version left a table, its columns and form match, and no log
// was set back behind its position.
func (r *rebuild) canResume(ctx context.Context, conn *pgx.Conn) (left bool, err error) {
	if !r.resumes || r.view.Mode() == fold.ByAppend {
		return false, nil
	}
	err = conn.QueryRow(ctx, `
		with columns as (
			select attrelid::regclass::text as name,
				string_agg(attname || ' ' || format_type(atttypid, atttypmod) || attnotnull, ', ' order by attnum) as form
			from pg_attribute where attrelid in (to_regclass($1), to_regclass($2)) and attnum > 0 and not attisdropped group by 1)
		select count(*) = 2 and count(distinct form) = 1 and (
			select coalesce(bool_and(form = $4 and version = $5 and seq <= coalesce(head, 0)), false)
			from rebuilds left join logs using (workspace_id) where view = $3)
		from columns`, r.view.Name(), r.nextTable, r.view.Name(), r.view.Form(), config.Version).Scan(&left)
	if err != nil {
		return false, fmt.Errorf("look for what a rebuild left: %w", err)
	}
	return left, nil
}

// resume adds up the positions that the killed rebuild reached. The server may still run its last
// statement: the table lock waits for the end of that.
func (r *rebuild) resume(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `lock table `+r.nextTable+` in access exclusive mode`); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, `
		select coalesce(sum(seq), 0)::bigint, concat(count(*), ' ', sum(hashtextextended(concat(workspace_id, seq), 0)))
		from rebuilds where view = $1`, r.view.Name()).Scan(&r.Resumed, &r.resumedAt)
	if err != nil {
		return fmt.Errorf("read what a rebuild left: %w", err)
	}
	// Some indexes may exist. All are dropped and created again later.
	if _, err := tx.Exec(ctx, fmt.Sprintf(`alter table %s drop constraint if exists %s_pkey__next`, r.nextTable, r.view.Name())); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, `select indexrelid::regclass::text from pg_index where indrelid = $1::regclass`, r.nextTable)
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[string])
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

// dropLeftovers drops the next table and all rows that describe it.
func (r *rebuild) dropLeftovers(ctx context.Context, conn *pgx.Conn) error {
	for _, sql := range []string{
		`drop table if exists ` + r.nextTable,
		`delete from rebuilds where view = '` + r.view.Name() + `'`,
		`delete from parked where view = '` + r.nextTable + `'`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// parkFunc returns a function that queues parking an event. Views that are not followed decide about
// rights, so they may not skip an event: for them the function returns the error.
func (r *rebuild) parkFunc(b *pgx.Batch) fold.ParkFunc {
	return func(workspace events.ID, seq int64, err error) error {
		if !r.mayPark(err) {
			return fmt.Errorf("event %d of log %s: %w", seq, workspace, err)
		}
		fold.QueuePark(b, r.parkedIn, r.nextTable, workspace, seq, err)
		return nil
	}
}

func (r *rebuild) mayPark(err error) bool { return r.followed() && fold.CausedByEvent(err) }

func (r *rebuild) followed() bool { return r.view.Mode() == fold.Followed }

// foldable returns the records that the view can fold, of those whose kinds it folds, and passes the others to
// park: events that cannot be decoded, unless the view folds those as well.
func (r *rebuild) foldable(records []events.Record, park fold.ParkFunc) ([]events.Record, error) {
	if r.view.FoldsDamaged() {
		return records, nil
	}
	kept := records[:0:len(records)]
	for i, e := range records {
		unread, ok := e.Event.(events.Undecoded)
		if !ok {
			kept = append(kept, records[i])
			continue
		}
		_, err := events.Decode(unread.Name, e.Schema, e.Data)
		if err := park(e.Workspace, e.Seq, err); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
