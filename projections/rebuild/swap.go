package rebuild

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An index describes an index of the view: its name, its name on the next table, and its
// definition.
type index struct {
	Name, Next, Create string
	Primary            bool
}

// createIndexes creates the view's indexes on the next table, or those named in only. It skips those that
// exist.
func (r *rebuild) createIndexes(ctx context.Context, only []string) ([]index, error) {
	rows, _ := r.db.Query(ctx, `
		select c.relname, c.relname || '__next', pg_get_indexdef(i.indexrelid), i.indisprimary
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = $1::regclass and ($2::text[] is null or c.relname = any($2)) order by 1`, r.view.Name(), only)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return nil, fmt.Errorf("list indexes: %w", err)
	}
	if only != nil && len(list) != len(only) {
		return nil, fmt.Errorf("the view has not all of the indexes %q", only)
	}
	for _, i := range list {
		if r.indexed[i.Name] {
			continue
		}
		if err := r.createIndex(ctx, i); err != nil {
			return nil, err
		}
		r.indexed[i.Name] = true
	}
	return list, nil
}

func (r *rebuild) createIndex(ctx context.Context, i index) error {
	sql := strings.Replace(i.Create, " "+i.Name+" ON ", " "+i.Next+" ON ", 1)
	sql = strings.Replace(sql, "."+r.view.Name()+" ", "."+r.nextTable+" ", 1)
	if _, err := r.db.Exec(ctx, sql); err != nil {
		return fmt.Errorf("create index %s: %w", i.Next, err)
	}
	if i.Primary {
		sql := fmt.Sprintf(`alter table %s add constraint %s primary key using index %s`, r.nextTable, i.Next, i.Next)
		if _, err := r.db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("add primary key %s: %w", i.Next, err)
		}
	}
	return nil
}

// The swap is retried while others, such as a backup, use the view without a pause.
const (
	swapTimeout     = 30 * time.Minute       // for all tries together
	minSwapPause    = 100 * time.Millisecond // between tries; doubles up to maxSwapPause
	maxSwapPause    = 10 * time.Second
	swapLockTimeout = 500 * time.Millisecond // lock timeout: other users queue behind a waiting lock request
	minSwapHold     = time.Second            // for the last events; doubles after each timeout up to maxSwapHold
	maxSwapHold     = 8 * time.Second        // needed on a slow machine or with very many logs
)

var errHeldTooLong = errors.New("applying the last events takes longer than the view may be locked")

// swap puts the next table in the place of the view, retrying until swapTimeout.
func (r *rebuild) swap(ctx context.Context, indexes []index) error {
	ctx, cancel := context.WithTimeout(ctx, swapTimeout)
	defer cancel()
	hold := minSwapHold
	for pause := minSwapPause; ; pause = min(2*pause, maxSwapPause) {
		if err := r.nearlyCatchUp(ctx); err != nil {
			return err
		}
		before := r.Result
		err := r.trySwap(ctx, indexes, hold)
		if err == nil {
			return nil
		}
		r.Result = before // the transaction was rolled back
		pg, ok := errors.AsType[*pgconn.PgError](err)
		switch {
		case errors.Is(err, errHeldTooLong):
			hold = min(2*hold, maxSwapHold)
		case ok && (pg.Code == "55P03" || pg.Code == "40P01"): // lock not available, deadlock
			err = fmt.Errorf("the view is in use by a transaction that does not end; look for it in pg_stat_activity: %w", err)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return err
		case <-time.After(pause):
		}
	}
}

func (r *rebuild) trySwap(ctx context.Context, indexes []index, hold time.Duration) error {
	return pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error { return r.swapIn(ctx, tx, indexes, hold) })
}

// swapIn takes the locks and replaces the view in as few round trips as possible, because all other
// users wait. It gives up after hold. Should the connection break or this host vanish, the timeouts
// end the transaction on the server.
func (r *rebuild) swapIn(ctx context.Context, tx pgx.Tx, indexes []index, hold time.Duration) error {
	live, b := r.view.Name(), &pgx.Batch{}
	b.Queue(fmt.Sprintf(`set local lock_timeout = %d`, swapLockTimeout.Milliseconds()))
	b.Queue(`lock table checkpoints in exclusive mode`) // followers finish their page, then wait
	b.Queue(`lock table ` + live + ` in access exclusive mode`)
	b.Queue(`lock table ` + r.nextTable + ` in access exclusive mode`)
	// The advisory lock still being held proves that no other rebuild of this view has begun.
	b.Queue(`
		select from pg_locks where locktype = 'advisory' and granted and pid = $1
		and objsubid = 1 and objid::bigint = hashtext($2)::bigint & 4294967295`, r.lockedBy, r.nextTable).Exec(requireRows(1))
	b.Queue(fmt.Sprintf(`set local statement_timeout = %d`, 2*hold.Milliseconds()))
	b.Queue(fmt.Sprintf(`set local idle_in_transaction_session_timeout = %d`, 2*hold.Milliseconds()))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	held, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	err := r.replaceView(held, tx, indexes)
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errHeldTooLong, err)
	}
	return err
}

func (r *rebuild) replaceView(ctx context.Context, tx pgx.Tx, indexes []index) error {
	if _, err := r.catchUp(ctx, tx); err != nil {
		return err
	}
	rights, err := r.rights(ctx, tx)
	if err != nil {
		return err
	}
	live, b := r.view.Name(), &pgx.Batch{}
	for _, sql := range rights {
		b.Queue(sql)
	}
	b.Queue(`drop table ` + live)
	b.Queue(fmt.Sprintf(`alter table %s rename to %s`, r.nextTable, live))
	for _, i := range indexes {
		b.Queue(fmt.Sprintf(`alter index %s rename to %s`, i.Next, i.Name))
	}
	r.queueCheckpoints(b)
	return tx.SendBatch(ctx, b).Close()
}

// rights returns statements that give the next table the owner and the grants of the view.
func (r *rebuild) rights(ctx context.Context, tx pgx.Tx) (grants []string, err error) {
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
		select 2, format('alter table %I owner to %I', $2::text, pg_get_userbyid(relowner)) from live
			where pg_get_userbyid(relowner) <> current_user
		order by 1`, r.view.Name(), r.nextTable)
	grants, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (sql string, err error) { return sql, row.Scan(nil, &sql) })
	if err != nil {
		return nil, fmt.Errorf("read the rights to %s: %w", r.view.Name(), err)
	}
	return grants, nil
}

// queueCheckpoints queues the view's new form, parked events and checkpoints. It writes only checkpoints
// that change.
func (r *rebuild) queueCheckpoints(b *pgx.Batch) {
	live := r.view.Name()
	b.Queue(`delete from parked where view = $1`, live)
	b.Queue(`update parked set view = $1 where view = $2`, live, r.nextTable)
	b.Queue(`
		insert into views (name, form, rebuilt_at) values ($1, $2, now())
		on conflict (name) do update set form = excluded.form, rebuilt_at = excluded.rebuilt_at`, live, r.view.Form())
	if r.followed() {
		b.Queue(`
			insert into checkpoints (workspace_id, view, seq)
			select r.workspace_id, $1, r.seq
			from rebuilds r left join checkpoints c on c.workspace_id = r.workspace_id and c.view = $1
			where r.view = $1 and c.seq is distinct from r.seq
			on conflict (workspace_id, view) do update set seq = excluded.seq`, live)
	}
}
