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

	"svc/events"
)

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
		before, done := maps.Clone(r.at), r.Rebuilt
		err := pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error { return r.swapIn(ctx, tx, indexes) })
		if err == nil {
			return nil
		}
		r.at, r.Rebuilt = before, done // what was taken in is rolled back
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

// checkpoint says how far the new table has come, and what it could not take in.
func (r *rebuild) checkpoint(ctx context.Context, tx pgx.Tx) error {
	var workspaces []events.ID
	var positions []int64
	for workspace, seq := range r.at {
		workspaces, positions = append(workspaces, workspace), append(positions, seq)
	}
	live, b := r.view.Name(), &pgx.Batch{}
	b.Queue(`delete from parked where view = $1`, live)
	b.Queue(`update parked set view = $1 where view = $2`, live, r.next)
	b.Queue(`
		insert into views (name, form, rebuilt_at) values ($1, $2, now())
		on conflict (name) do update set form = excluded.form, rebuilt_at = excluded.rebuilt_at`, live, r.view.form())
	if r.followed() {
		b.Queue(`
			insert into checkpoints (workspace_id, view, seq)
			select w, $1, s from unnest($2::uuid[], $3::bigint[]) as t (w, s)
			on conflict (workspace_id, view) do update set seq = excluded.seq`, live, workspaces, positions)
	}
	return tx.SendBatch(ctx, b).Close()
}
