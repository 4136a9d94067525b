package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
	"svc/proof"
)

// purgeDue purges the workspaces whose time to be restored is over.
func (w *Worker) purgeDue(ctx context.Context) error {
	rows, _ := w.DB.Query(ctx, `
		select workspace_id from deleted_workspaces d
		where purge_at <= $1 and not exists (select from tombstones t where t.workspace_id = d.workspace_id)
		order by purge_at limit $2`, w.Now(), page)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return fmt.Errorf("look for workspaces to purge: %w", err)
	}
	var all error
	for _, workspace := range list {
		if err := w.purge(ctx, workspace); err != nil {
			all = errors.Join(all, fmt.Errorf("purge %s: %w", workspace, err))
		}
	}
	return all
}

// purge erases everything but the log of a workspace, and puts its tombstone. It returns nil if that has to wait for
// followers of the log.
func (w *Worker) purge(ctx context.Context, workspace events.ID) error {
	if _, err := w.Commands.PurgeWorkspace(ctx, commands.PurgeWorkspace{Meta: commands.SystemMeta(workspace)}); err != nil {
		return err
	}
	if followed, err := w.isFollowed(ctx, workspace); err != nil || !followed {
		return err
	}
	if err := w.removeFiles(ctx, workspace); err != nil {
		return err
	}
	if _, err := w.DB.Exec(ctx, `delete from vault_secrets where strpos(name, $1) > 0`, workspace.String()); err != nil {
		return fmt.Errorf("delete its secrets: %w", err)
	}
	if _, err := w.DB.Exec(ctx, `update sessions set active_workspace_id = null where active_workspace_id = $1`, workspace); err != nil {
		return fmt.Errorf("end its being active: %w", err)
	}
	tables, err := w.tables(ctx)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := w.deleteRows(ctx, table, workspace); err != nil {
			return err
		}
	}
	return w.putTombstone(ctx, workspace)
}

// isFollowed reports whether all followers have read the whole log, so that none adds rows later.
func (w *Worker) isFollowed(ctx context.Context, workspace events.ID) (yes bool, err error) {
	err = w.DB.QueryRow(ctx, `
		select not exists (
			select from unnest($2::text[]) v (name) left join checkpoints c on c.workspace_id = $1 and c.view = v.name
			where coalesce(c.seq, 0) < (select head from logs where workspace_id = $1))`, workspace, w.Followers).Scan(&yes)
	return yes, fault.Wrap(err, "read how far the log is followed")
}

// removeFiles removes the artifacts of all jobs.
func (w *Worker) removeFiles(ctx context.Context, workspace events.ID) error {
	if w.Artifacts == nil {
		return nil
	}
	var last events.ID
	for {
		rows, _ := w.DB.Query(ctx, `
			select job_id from jobs where workspace_id = $1 and job_id > $2 order by job_id limit $3`, workspace, last, page)
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
		if err != nil {
			return fmt.Errorf("list its jobs: %w", err)
		}
		for _, job := range jobs {
			if err := artifacts.RemoveJob(ctx, w.Artifacts, workspace, job); err != nil {
				return fmt.Errorf("remove the artifacts of job %s: %w", job, err)
			}
			last = job
		}
		if len(jobs) < page {
			return nil
		}
	}
}

// logTables have the log itself and what proves it, and may be large. lastTables say that there is a log, how far it is
// followed, and that it is deleted; they go last.
var (
	logTables  = []string{"events", "proof_hashes", "proof_tiles"}
	lastTables = []string{"logs", "checkpoints", "proof_checkpoints", "deleted_workspaces"}
)

// tables returns the other tables that have rows of workspaces. global_keys is the last one, so that nobody has the
// workspace's slug before all that it named is gone.
func (w *Worker) tables(ctx context.Context) ([]string, error) {
	rows, _ := w.DB.Query(ctx, `
		select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = current_schema::regnamespace and c.relkind in ('r', 'p') and a.attname = 'workspace_id' and not a.attisdropped
		and not c.relname = any($1) order by c.relname = 'global_keys', c.relname`,
		slices.Concat(logTables, lastTables, []string{"tombstones", "users", "accounts"}))
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return list, fault.Wrap(err, "list tables")
}

// deleteRows deletes the rows of a workspace, some at a time.
func (w *Worker) deleteRows(ctx context.Context, table string, workspace events.ID) error {
	name := pgx.Identifier{table}.Sanitize()
	for {
		tag, err := w.DB.Exec(ctx, `
			delete from `+name+` where workspace_id = $1 and ctid = any(array(
				select ctid from `+name+` where workspace_id = $1 limit $2))`, workspace, rowsPerStep)
		if err != nil {
			return fmt.Errorf("delete rows of %s: %w", table, err)
		}
		if tag.RowsAffected() < rowsPerStep {
			return nil
		}
	}
}

// putTombstone puts the tombstone as soon as all of the log is signed. From then on the log may lack events, and
// [Worker.eraseAll] erases it.
func (w *Worker) putTombstone(ctx context.Context, workspace events.ID) error {
	if err := w.Prover.Sign(ctx, []events.ID{workspace}); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select from logs where workspace_id = $1 for update`, workspace); err != nil {
			return fmt.Errorf("lock the log: %w", err)
		}
		text, err := w.Prover.Tombstone(ctx, tx, workspace, w.Now())
		if errors.Is(err, proof.ErrUnsigned) {
			return nil // the next round tries again
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into tombstones (workspace_id, note) values ($1, $2)`, workspace, text)
		return fault.Wrap(err, "put a tombstone")
	})
}

// eraseAll erases what is left of workspaces that have a tombstone.
func (w *Worker) eraseAll(ctx context.Context) error {
	rows, _ := w.DB.Query(ctx, `select workspace_id from tombstones where erased_at is null limit $1`, page)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return fmt.Errorf("look for workspaces to erase: %w", err)
	}
	for _, workspace := range list {
		if err := w.erase(ctx, workspace); err != nil {
			return fmt.Errorf("erase %s: %w", workspace, err)
		}
		w.Log.InfoContext(ctx, "erased a workspace that was deleted", "workspace", workspace)
	}
	return nil
}

// erase erases the events, and at the end what followers know of the log: they would read the events again otherwise.
func (w *Worker) erase(ctx context.Context, workspace events.ID) error {
	for _, table := range logTables {
		if err := w.deleteRows(ctx, table, workspace); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, w.DB, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, table := range lastTables {
			batch.Queue(`delete from `+table+` where workspace_id = $1`, workspace)
		}
		batch.Queue(`update tombstones set erased_at = $2 where workspace_id = $1`, workspace, w.Now())
		return fault.Wrap(tx.SendBatch(ctx, batch).Close(), "end the log")
	})
}
