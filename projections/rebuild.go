package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// Rebuild makes a view anew from the whole log while reads and writes go on:
// it folds every log into a second table, lets that catch up with what was
// appended meanwhile, and then puts it in the place of the first, under a lock
// that lasts for the last few events. progress hears how many events are done
// and how many there were at the start.
//
// A rebuild that is cancelled leaves nothing behind. One that is killed leaves
// its table, and the next one goes on from there.
func Rebuild(ctx context.Context, db *pgxpool.Pool, v View, progress func(done, total int64)) (Rebuilt, error) {
	r := &rebuild{db: db, view: v, next: v.Name() + "__next", at: map[events.ID]int64{}, progress: progress}
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
}

// rebuildLimit is how long a rebuild may take in all.
const rebuildLimit = 24 * time.Hour

type rebuild struct {
	Rebuilt
	db       *pgxpool.Pool
	view     View
	next     string              // the table that is being made
	at       map[events.ID]int64 // how far it has come in each log
	total    int64
	progress func(done, total int64)
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
	var alone bool
	if err := conn.QueryRow(steady, `select pg_try_advisory_lock(hashtext($1))`, r.next).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return errors.New("another rebuild of this view is under way")
	}
	defer conn.Exec(steady, `select pg_advisory_unlock(hashtext($1))`, r.next)
	defer r.forget(steady, conn.Conn()) // nothing is left of it after the swap
	if err := r.begin(steady, conn.Conn()); err != nil {
		return err
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
	indexes, err := r.index(ctx)
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

func (r *rebuild) countParked(ctx context.Context) error {
	return r.db.QueryRow(ctx, `select count(*) from parked where view = $1`, r.view.Name()).Scan(&r.Parked)
}

// begin goes on with the table that a killed rebuild has left, if its rows have
// the form of this one's, or makes another.
func (r *rebuild) begin(ctx context.Context, conn *pgx.Conn) error {
	var left bool
	err := conn.QueryRow(ctx, `
		with columns as (
			select attrelid::regclass::text as name, string_agg(attname || ' ' || format_type(atttypid, atttypmod) || attnotnull, ', ' order by attnum) as form
			from pg_attribute where attrelid in (to_regclass($1), to_regclass($2)) and attnum > 0 and not attisdropped group by 1)
		select count(*) = 2 and count(distinct form) = 1 and (select coalesce(bool_and(form = $4), false) from rebuilds where view = $3)
		from columns`, r.view.Name(), r.next, r.view.Name(), r.view.form()).Scan(&left)
	if err != nil {
		return fmt.Errorf("look for what a rebuild left: %w", err)
	}
	if left {
		return r.resume(ctx, conn)
	}
	if err := r.forget(ctx, conn); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`create table %s (like %s including defaults including constraints)`, r.next, r.view.Name()))
	return err
}

func (r *rebuild) resume(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, `select workspace_id, seq from rebuilds where view = $1`, r.view.Name())
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
	names, _ := conn.Query(ctx, `select indexrelid::regclass::text from pg_index where indrelid = $1::regclass and not indisprimary`, r.next)
	indexes, err := pgx.CollectRows(names, pgx.RowTo[string])
	for _, name := range indexes {
		if _, err := conn.Exec(ctx, `drop index `+name); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`alter table %s drop constraint if exists %s_pkey__next`, r.next, r.view.Name()))
	return err
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

// heads returns the position of every log.
func heads(ctx context.Context, db store.Querier) (map[events.ID]int64, error) {
	rows, _ := db.Query(ctx, `select workspace_id, head from logs`)
	list := map[events.ID]int64{}
	var workspace events.ID
	var head int64
	_, err := pgx.ForEachRow(rows, []any{&workspace, &head}, func() error { list[workspace] = head; return nil })
	return list, err
}

// fold reads every log from its beginning.
func (r *rebuild) fold(ctx context.Context) error {
	list, err := heads(ctx, r.db)
	if err != nil {
		return err
	}
	for _, head := range list {
		r.total += head
	}
	for workspace, head := range list {
		if r.at[workspace] > 0 {
			continue // a rebuild before this one has; the rest is caught up with
		}
		err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
			if err := r.foldLog(ctx, tx, workspace, head, r.next); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `insert into rebuilds (workspace_id, view, seq, form) values ($1, $2, $3, $4)`,
				workspace, r.view.Name(), r.at[workspace], r.view.form())
			return err
		})
		switch {
		case r.followed() && poisonous(err): // some row: catching up goes event by event, and finds which
			r.undo(workspace)
		case err != nil:
			return fmt.Errorf("log %s: %w", workspace, err)
		}
	}
	return nil
}

// undo notes that nothing of a log is in the table.
func (r *rebuild) undo(workspace events.ID) {
	r.Events -= r.at[workspace]
	r.at[workspace] = 0
}

// foldLog folds a log up to its head into a table that has nothing of it. While a
// page is folded and written the next ones are read.
func (r *rebuild) foldLog(ctx context.Context, tx pgx.Tx, workspace events.ID, head int64, table string) error {
	left := &pgx.Batch{}
	park := r.parker(left)
	ahead := r.readAhead(ctx, workspace, r.at[workspace], head)
	defer ahead.close()
	next := func() ([]events.Record, error) {
		for r.at[workspace] < head {
			p, ok := ahead.next(r.at[workspace])
			if !ok {
				return nil, ctx.Err()
			}
			if p.refused != nil {
				if err := park(workspace, p.at, p.refused); err != nil {
					return nil, err
				}
			}
			r.step(workspace, p.at)
			if p.err != nil || len(p.list) > 0 {
				return p.list, p.err
			}
		}
		return nil, nil
	}
	if err := r.view.copyLog(ctx, tx, table, next, park); err != nil {
		return err
	}
	return tx.SendBatch(ctx, left).Close()
}

// parker returns what queues that an event is left out. A view that is not
// followed decides about rights: it has to be whole.
func (r *rebuild) parker(b *pgx.Batch) parking {
	return func(workspace events.ID, seq int64, err error) error {
		if !r.followed() || !poisonous(err) {
			return err
		}
		queuePark(b, r.next, workspace, seq, err)
		return nil
	}
}

func (r *rebuild) followed() bool { return slices.Contains(followedViews, r.view) }

// read reads on in a log. at is where it has got to, which is beyond what it
// returns if it has parked something.
func (r *rebuild) read(ctx context.Context, db store.Querier, workspace events.ID, limit int, park parking) (list []events.Record, at int64, err error) {
	var refused error
	list, at, err = readOn(ctx, db, r.view, workspace, r.at[workspace], limit, func(seq int64, err error) {
		refused = park(workspace, seq, err)
	})
	return list, at, errors.Join(err, refused)
}

func (r *rebuild) step(workspace events.ID, at int64) {
	r.Events += at - r.at[workspace]
	r.at[workspace] = at
	r.progress(r.Resumed+r.Events, max(r.total, r.Resumed+r.Events))
}

// beginner is a pool, or a transaction, in which it begins a nested one.
type beginner interface {
	store.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// nearlyCatchUp takes in what was appended since until little is left.
func (r *rebuild) nearlyCatchUp(ctx context.Context) error {
	for range 10 {
		if n, err := r.catchUp(ctx, r.db); err != nil || n < little {
			return err
		}
	}
	return nil
}

// little is how many events may be left to take in while the view is held.
const little = 100

// catchUp takes in what was appended since. It returns how many events that were.
func (r *rebuild) catchUp(ctx context.Context, db beginner) (n int64, err error) {
	list, err := heads(ctx, db)
	if err != nil {
		return 0, err
	}
	before := r.Events
	for workspace, head := range list {
		for r.at[workspace] < head {
			if err := r.takePage(ctx, db, workspace, r.next, page); err != nil {
				return r.Events - before, fmt.Errorf("log %s: %w", workspace, err)
			}
		}
	}
	return r.Events - before, nil
}

// takePage takes in the next events of a log, as [Follower] does.
func (r *rebuild) takePage(ctx context.Context, db beginner, workspace events.ID, table string, limit int) error {
	left := &pgx.Batch{}
	park := r.parker(left)
	records, at, err := r.read(ctx, db, workspace, limit, park)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			return takeIn(ctx, tx, r.view, table, records, func(*pgx.Batch) {})
		})
		if poisonous(err) && limit == 1 {
			err = park(workspace, at, err)
		}
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, left).Close()
	})
	if poisonous(err) && limit > 1 && r.followed() {
		return r.takePage(ctx, db, workspace, table, limit/2)
	}
	if err == nil {
		r.step(workspace, at)
	}
	return err
}

// compare notes the logs of which the live view has other rows, where both have
// come equally far. It reads both tables at one moment and locks nothing.
func (r *rebuild) compare(ctx context.Context) error {
	positions := `select workspace_id, head from logs`
	if r.followed() {
		positions = `select workspace_id, seq from checkpoints where view = '` + r.view.Name() + `'`
	}
	return pgx.BeginTxFunc(ctx, r.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		sum := `select workspace_id, count(*) as n, sum(hashtextextended(t::text, 0)) as sum from %s t group by workspace_id`
		rows, _ := tx.Query(ctx, fmt.Sprintf(`
			with live as (`+sum+`), next as (`+sum+`), position (workspace_id, seq) as (`+positions+`)
			select workspace_id, p.seq from live full join next using (workspace_id) join position p using (workspace_id)
			where (live.n, live.sum) is distinct from (next.n, next.sum) order by 1`, r.view.Name(), r.next))
		var workspace events.ID
		var seq int64
		_, err := pgx.ForEachRow(rows, []any{&workspace, &seq}, func() error {
			if r.at[workspace] == seq {
				r.Differing = append(r.Differing, workspace)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("compare with the live view: %w", err)
		}
		return nil
	})
}
