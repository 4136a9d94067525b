package projections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// Rebuild makes a view anew from the whole log while reads and writes go on:
// it folds every log into a second table, lets that catch up with what was
// appended meanwhile, and then puts it in the place of the first, under a lock
// that lasts for the last few events. progress hears how many events are done
// and how many there were at the start.
func Rebuild(ctx context.Context, db *pgxpool.Pool, v View, progress func(done, total int64)) error {
	r := &rebuild{db: db, view: v, next: v.Name() + "__next", at: map[events.ID]int64{}, progress: progress}
	if err := r.run(ctx); err != nil {
		return fmt.Errorf("rebuild %s: %w", v.Name(), err)
	}
	return nil
}

// rebuildLimit is how long a rebuild may take in all.
const rebuildLimit = 24 * time.Hour

type rebuild struct {
	db          *pgxpool.Pool
	view        View
	next        string              // the table that is being made
	at          map[events.ID]int64 // how far it has come in each log
	done, total int64
	progress    func(done, total int64)
}

func (r *rebuild) run(ctx context.Context) error {
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
	defer conn.Exec(steady, `drop table if exists `+r.next) // nothing is left of it after the swap
	if _, err := conn.Exec(steady, `drop table if exists `+r.next); err != nil {
		return err
	}
	if _, err := conn.Exec(steady, fmt.Sprintf(`create table %s (like %s including defaults including constraints)`, r.next, r.view.Name())); err != nil {
		return err
	}
	if err := r.fold(ctx); err != nil {
		return err
	}
	indexes, err := r.index(ctx)
	if err != nil {
		return err
	}
	for range 10 { // until little is left to do under the lock
		if n, err := r.catchUp(ctx, r.db); err != nil {
			return err
		} else if n < page {
			break
		}
	}
	return r.swap(ctx, indexes)
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
		next := func() ([]events.Record, error) {
			records, err := r.view.after(ctx, r.db, workspace, r.at[workspace], int(min(2*page, head-r.at[workspace])))
			r.step(workspace, records)
			return records, err
		}
		err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
			_, err := r.view.copyLog(ctx, tx, r.next, next)
			return err
		})
		if err != nil {
			return fmt.Errorf("log %s: %w", workspace, err)
		}
	}
	return nil
}

func (r *rebuild) step(workspace events.ID, records []events.Record) {
	if n := len(records); n > 0 {
		r.at[workspace] = records[n-1].Seq
		r.done += int64(n)
		r.progress(r.done, max(r.total, r.done))
	}
}

// An index is one of the view's, with the name and form it gets on the next table.
type index struct {
	Name, Next, Create string
	Primary            bool
}

// index gives the next table the indexes that the view has.
func (r *rebuild) index(ctx context.Context) ([]index, error) {
	rows, _ := r.db.Query(ctx, `
		select c.relname, c.relname || '__next', pg_get_indexdef(i.indexrelid), i.indisprimary
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = $1::regclass order by 1`, r.view.Name())
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return nil, fmt.Errorf("list indexes: %w", err)
	}
	for _, i := range list {
		sql := strings.Replace(i.Create, " "+i.Name+" ON ", " "+i.Next+" ON ", 1)
		sql = strings.Replace(sql, "."+r.view.Name()+" ", "."+r.next+" ", 1)
		if _, err := r.db.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("create index %s: %w", i.Next, err)
		}
		if i.Primary {
			if _, err := r.db.Exec(ctx, fmt.Sprintf(`alter table %s add constraint %s primary key using index %s`, r.next, i.Next, i.Next)); err != nil {
				return nil, fmt.Errorf("primary key %s: %w", i.Next, err)
			}
		}
	}
	return list, nil
}

// beginner is a pool, or a transaction, in which it begins a nested one.
type beginner interface {
	store.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// catchUp takes in what was appended since. It returns how many events that were.
func (r *rebuild) catchUp(ctx context.Context, db beginner) (n int, err error) {
	list, err := heads(ctx, db)
	if err != nil {
		return 0, err
	}
	for workspace, head := range list {
		for r.at[workspace] < head {
			records, err := r.view.after(ctx, db, workspace, r.at[workspace], page)
			if err != nil {
				return n, err
			}
			err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				return takeIn(ctx, tx, r.view, r.next, records, func(*pgx.Batch) {})
			})
			if err != nil {
				return n, fmt.Errorf("log %s: %w", workspace, err)
			}
			r.step(workspace, records)
			n += len(records)
		}
	}
	return n, nil
}

// How long the swap is tried while others use the view without a pause, such
// as a backup, and how long it waits in between.
const (
	swapLimit     = 30 * time.Minute
	swapPause     = 100 * time.Millisecond // doubled each time, up to
	swapPauseMost = 10 * time.Second
)

// swap puts the next table in the place of the view. Locks are asked for with
// a limit, because everyone else queues behind the request.
func (r *rebuild) swap(ctx context.Context, indexes []index) error {
	ctx, cancel := context.WithTimeout(ctx, swapLimit)
	defer cancel()
	for pause := swapPause; ; pause = min(2*pause, swapPauseMost) {
		before := maps.Clone(r.at)
		err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error { return r.swapIn(ctx, tx, indexes) })
		if err == nil {
			return nil
		}
		r.at = before // what was taken in is rolled back
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pg.Code != "55P03" && pg.Code != "40P01" { // lock not available, deadlock
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("the view is in use by a transaction that does not end; look for it in pg_stat_activity: %w", err)
		case <-time.After(pause):
		}
		if _, err := r.catchUp(ctx, r.db); err != nil {
			return err
		}
	}
}

func (r *rebuild) swapIn(ctx context.Context, tx pgx.Tx, indexes []index) error {
	live := r.view.Name()
	exec := func(sql string, args ...any) func() error {
		return func() error { _, err := tx.Exec(ctx, sql, args...); return err }
	}
	steps := []func() error{
		exec(`set local lock_timeout = '500ms'`),
		exec(`lock table checkpoints in exclusive mode`), // followers finish their page, then wait
		exec(`lock table ` + live + ` in access exclusive mode`),
		func() error { _, err := r.catchUp(ctx, tx); return err },
		func() error { return r.handOver(ctx, tx) },
		exec(`drop table ` + live),
		exec(fmt.Sprintf(`alter table %s rename to %s`, r.next, live)),
	}
	for _, i := range indexes {
		steps = append(steps, exec(fmt.Sprintf(`alter index %s rename to %s`, i.Next, i.Name)))
	}
	steps = append(steps, func() error { return r.checkpoint(ctx, tx) })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// handOver gives the next table the owner of the view and everybody's rights
// to it: an operator's reports go on.
func (r *rebuild) handOver(ctx context.Context, tx pgx.Tx) error {
	rows, _ := tx.Query(ctx, `
		with live as (select relacl, relowner from pg_class where oid = $1::regclass)
		select 1, format('grant %s on %I to %s%s', privilege_type, $2::text,
			case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
			case when is_grantable and grantee <> 0 then ' with grant option' else '' end)
		from live, aclexplode(relacl)
		union all
		select 1, format('grant %s (%I) on %I to %s', privilege_type, attname, $2::text,
			case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end)
		from pg_attribute, aclexplode(attacl) where attrelid = $1::regclass
		union all
		select 2, format('alter table %I owner to %I', $2::text, pg_get_userbyid(relowner)) from live where pg_get_userbyid(relowner) <> current_user
		order by 1`, r.view.Name(), r.next)
	grants, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sql string, err error) { return sql, row.Scan(nil, &sql) })
	if err != nil {
		return fmt.Errorf("read the rights to %s: %w", r.view.Name(), err)
	}
	for _, grant := range grants {
		if _, err := tx.Exec(ctx, grant); err != nil {
			return fmt.Errorf("%s: %w", grant, err)
		}
	}
	return nil
}

// checkpoint says, of a followed view, how far its new table has come.
func (r *rebuild) checkpoint(ctx context.Context, tx pgx.Tx) error {
	followed := false
	for _, v := range followedViews {
		followed = followed || v == r.view
	}
	if !followed {
		return nil
	}
	var workspaces []events.ID
	var positions []int64
	for workspace, seq := range r.at {
		workspaces, positions = append(workspaces, workspace), append(positions, seq)
	}
	_, err := tx.Exec(ctx, `
		insert into checkpoints (workspace_id, view, seq)
		select w, $1, s from unnest($2::uuid[], $3::bigint[]) as t (w, s)
		on conflict (workspace_id, view) do update set seq = excluded.seq`, r.view.Name(), workspaces, positions)
	return err
}
