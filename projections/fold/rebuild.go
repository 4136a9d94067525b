package fold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events"
)

// Rebuild rebuilds a view from all logs while reads and writes go on. It folds every log into a
// second table, catches up with what was appended meanwhile, and then swaps the tables under a
// short exclusive lock. It calls progress with the number of events done and the number of events
// at the start.
//
// A rebuild that is cancelled leaves nothing behind. One that is killed leaves its table, which [ResumeRebuild]
// can complete and Rebuild drops.
//
// Memory holds the rows that the events of one transaction touch, a few pages of events, and a
// position for each log; see [limits].
func Rebuild(ctx context.Context, db *pgxpool.Pool, v View, progress func(done, total int64)) (RebuildResult, error) {
	return rebuildIn(ctx, db, v, foldLimits, false, progress)
}

// ResumeRebuild is Rebuild, except that it goes on with the table that a killed rebuild of the same version left, if
// there is one: at each commit, the table's rows of a log are the fold of its events up to the position in table
// rebuilds, which changes in the same transaction. Nothing authenticates those rows: whoever can write to the database
// can change them, and they become the view.
func ResumeRebuild(ctx context.Context, db *pgxpool.Pool, v View, progress func(done, total int64)) (RebuildResult, error) {
	return rebuildIn(ctx, db, v, foldLimits, true, progress)
}

func rebuildIn(ctx context.Context, db *pgxpool.Pool, v View, l limits, resume bool,
	progress func(done, total int64)) (RebuildResult, error) {
	if v.Mode() == ByAppend {
		// Keys move between logs, so the rows are only consistent if each log is folded in one
		// transaction.
		l.events = math.MaxInt64
	}
	r := newRebuild(db, v, "__next", l, progress)
	r.target, r.resumable, r.resumes = db, true, resume
	if err := r.run(ctx); err != nil {
		return r.RebuildResult, fmt.Errorf("rebuild %s: %w", v.Name(), err)
	}
	return r.RebuildResult, nil
}

// A RebuildResult is the result of a rebuild.
type RebuildResult struct {
	Events    int64       // events folded
	Resumed   int64       // events that an earlier, killed rebuild had folded
	Parked    int         // events of the view that are parked
	Differing []events.ID // workspaces whose rows differed before the rebuild

	// Rows lists the rows that differed, up to maxNamedRows. They no longer exist in the view.
	Rows []Difference
}

// rebuildTimeout is how long a rebuild may take in all.
const rebuildTimeout = 24 * time.Hour

type rebuild struct {
	RebuildResult
	db        *pgxpool.Pool
	view      View
	skip      []string            // kinds that the view does not fold
	nextTable string              // name of the table that is being made
	parkedIn  string              // table of its parked events, whose view is nextTable
	target    txBeginner          // database or connection that it is written through
	resumable bool                // positions are stored in table rebuilds, because the next table outlives this process
	resumes   bool                // go on with the table that a killed rebuild left
	limits    limits              // bounds of one transaction
	positions map[events.ID]int64 // position reached in each log
	indexed   map[string]bool     // indexes that the next table has
	total     int64
	progress  func(done, total int64)
	lockedBy  uint32 // backend process that holds the advisory lock
}

func newRebuild(db *pgxpool.Pool, v View, suffix string, l limits, progress func(done, total int64)) *rebuild {
	return &rebuild{
		db: db, view: v, skip: slices.DeleteFunc(events.Kinds(), v.Folds), nextTable: v.Name() + suffix, parkedIn: "parked", limits: l,
		positions: map[events.ID]int64{}, indexed: map[string]bool{}, progress: progress,
	}
}

func (r *rebuild) run(ctx context.Context) (err error) {
	conn, err := r.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// Creating and dropping tables is quick and must not be cancelled: the server may still carry
	// out a statement whose context has ended.
	steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildTimeout)
	defer cancel()
	if err := r.lock(steady, conn.Conn()); err != nil {
		return err
	}
	defer conn.Exec(steady, `select pg_advisory_unlock(hashtext($1))`, r.nextTable)
	defer r.dropLeftovers(steady, conn.Conn()) // has nothing to do after the swap
	if err := r.prepareTable(steady, conn.Conn()); err != nil {
		return err
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
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
	if !r.resumes || r.view.Mode() == ByAppend {
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

// resume reads the positions that the killed rebuild reached. The server may still run its last
// statement: the table lock waits for the end of that.
func (r *rebuild) resume(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `lock table `+r.nextTable+` in access exclusive mode`); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, `select workspace_id, seq from rebuilds where view = $1`, r.view.Name())
	var workspace events.ID
	var seq int64
	_, err := pgx.ForEachRow(rows, []any{&workspace, &seq}, func() error {
		r.positions[workspace] = seq
		r.Resumed += seq
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what a rebuild left: %w", err)
	}
	// Some indexes may exist. All are dropped and created again later.
	if _, err := tx.Exec(ctx, fmt.Sprintf(`alter table %s drop constraint if exists %s_pkey__next`, r.nextTable, r.view.Name())); err != nil {
		return err
	}
	names, _ := tx.Query(ctx, `select indexrelid::regclass::text from pg_index where indrelid = $1::regclass`, r.nextTable)
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
func (r *rebuild) parkFunc(b *pgx.Batch) ParkFunc {
	return func(workspace events.ID, seq int64, err error) error {
		if !r.followed() || !causedByEvent(err) {
			return err
		}
		queuePark(b, r.parkedIn, r.nextTable, workspace, seq, err)
		return nil
	}
}

func (r *rebuild) followed() bool { return r.view.Mode() == Followed }

// advance records that a log was folded and committed up to position at, and reports progress.
func (r *rebuild) advance(workspace events.ID, at int64) {
	r.Events += at - r.positions[workspace]
	r.positions[workspace] = at
	r.progress(r.Resumed+r.Events, max(r.total, r.Resumed+r.Events))
}
