package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// LockCheckpoints returns the checkpoints named name in the logs, and locks them until tx ends.
// Checkpoints that others hold are left out. The server ends tx if its process is silent
// for 30 s.
//
// The commit of tx does not wait for the disk. If the server crashes right after it, work
// and checkpoints are both as before, and the work is done again. Anything that relied on
// the work was committed later, and has flushed it too. If others rely on it without a commit,
// set synchronous_commit to default in tx.
func LockCheckpoints(ctx context.Context, tx pgx.Tx, name string, workspaces []events.ID) ([]store.Position, error) {
	held, err := lockCheckpoints(ctx, tx, []string{name}, workspaces, `= $2`, workspaces, name)
	list := make([]store.Position, len(held))
	for i, c := range held {
		list[i] = store.Position{Workspace: c.Workspace, Seq: c.Seq}
	}
	return list, err
}

// A Checkpoint says how far the consumer named Name has come in a log.
type Checkpoint struct {
	Workspace events.ID
	Name      string
	Seq       int64
}

// LockCheckpointsOf is [LockCheckpoints] for several names in one transaction. The names are literals in the
// statement: there are few of them, and the planner then knows them.
func LockCheckpointsOf(ctx context.Context, tx pgx.Tx, names []string, workspaces []events.ID) ([]Checkpoint, error) {
	return lockCheckpoints(ctx, tx, names, workspaces, `in ('`+strings.Join(names, `', '`)+`')`, workspaces)
}

// lockCheckpoints locks the checkpoints whose name meets the condition ofNames. args begin with the workspaces.
func lockCheckpoints(
	ctx context.Context, tx pgx.Tx, names []string, workspaces []events.ID, ofNames string, args ...any,
) (list []Checkpoint, err error) {
	b := &pgx.Batch{}
	b.Queue(`set local idle_in_transaction_session_timeout = '30s'`)
	b.Queue(`set local synchronous_commit = off`)
	b.Queue(`
		select c.* from unnest((select $1::uuid[])) as k (workspace_id) cross join lateral (
			select workspace_id, view, seq from checkpoints c
			where c.workspace_id = k.workspace_id and view `+ofNames+` offset 0 for update skip locked) c
		order by workspace_id`, args...).
		Query(func(rows pgx.Rows) error {
			list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Checkpoint])
			return err
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("lock checkpoints of %v: %w", names, err)
	}
	if len(list) == len(workspaces)*len(names) {
		return list, nil
	}
	rows, _ := tx.Query(ctx, `
		insert into checkpoints (workspace_id, view, seq)
		select workspace_id, view, 0 from unnest($1::uuid[]) as workspace_id, unnest($2::text[]) as view order by 1, 2
		on conflict do nothing returning workspace_id, view, seq`, workspaces, names)
	begun, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Checkpoint])
	if err != nil {
		return nil, fmt.Errorf("begin checkpoints of %v: %w", names, err)
	}
	return append(list, begun...), nil
}

// QueueMove queues moving checkpoints of one name that are held.
func QueueMove(b *pgx.Batch, name string, list []store.Position) {
	moves := make([]Checkpoint, len(list))
	for i, p := range list {
		moves[i] = Checkpoint{p.Workspace, name, p.Seq}
	}
	QueueMoves(b, moves)
}

// QueueMoves is [QueueMove] for any names. It is an upsert, because for an update the planner might
// read the rows of all logs.
func QueueMoves(b *pgx.Batch, list []Checkpoint) {
	workspaces, names, seqs := make([]events.ID, len(list)), make([]string, len(list)), make([]int64, len(list))
	for i, c := range list {
		workspaces[i], names[i], seqs[i] = c.Workspace, c.Name, c.Seq
	}
	b.Queue(`
		insert into checkpoints (workspace_id, view, seq)
		select * from unnest($1::uuid[], $2::text[], $3::bigint[])
		on conflict (workspace_id, view) do update set seq = excluded.seq`, workspaces, names, seqs)
}

// QueueClaim queues locking and moving the checkpoints of several names in one statement,
// for callers that know the current position of all of them in each log. It fails with
// [ErrMoved], changing nothing, if a checkpoint is elsewhere or missing. Unlike [LockCheckpointsOf]
// it waits for others that hold a checkpoint: limit the wait.
func QueueClaim(b *pgx.Batch, names []string, from, to []store.Position) {
	b.Queue(`set local idle_in_transaction_session_timeout = '30s'`)
	b.Queue(`set local synchronous_commit = off`)
	workspaces, were := store.Columns(from)
	_, ends := store.Columns(to)
	b.Queue(`
		update checkpoints c set seq = m.seq
		from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::bigint[])) as m (workspace_id, was, seq)
		where c.workspace_id = m.workspace_id and c.seq = m.was and c.view in ('`+strings.Join(names, `', '`)+`')`, workspaces, were, ends,
	).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(len(from)*len(names)) {
			return ErrMoved
		}
		return nil
	})
}

// QueueRequireEvents queues a check, for callers of [QueueClaim], that the log still has the events that they read before
// the transaction began. It fails with [ErrMoved] if one is gone: the database was restored, or a replica took over that
// did not have it.
func QueueRequireEvents(b *pgx.Batch, records []events.Record) {
	workspaces, seqs, ids := make([]events.ID, len(records)), make([]int64, len(records)), make([]events.ID, len(records))
	for i, r := range records {
		workspaces[i], seqs[i], ids[i] = r.Workspace, r.Seq, r.ID
	}
	b.Queue(`
		select count(*) from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[])) as k (workspace_id, seq, id)
		cross join lateral (select from events e where e.workspace_id = k.workspace_id and e.seq = k.seq and e.id = k.id offset 0) e`,
		workspaces, seqs, ids).QueryRow(requireCount(len(records)))
}

// RequireUnmoved returns [ErrMoved] unless the checkpoints of all names are at the given positions.
func RequireUnmoved(ctx context.Context, db Batcher, names []string, at []store.Position) error {
	if len(at) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, p := range at {
		b.Queue(`select count(*) from checkpoints where workspace_id = $1 and view = any($2) and seq = $3`,
			p.Workspace, names, p.Seq).QueryRow(requireCount(len(names)))
	}
	return fault.Wrap(db.SendBatch(ctx, b).Close(), "look for moved checkpoints")
}

// requireCount returns a function that fails with ErrMoved unless a query counts n rows.
func requireCount(n int) func(pgx.Row) error {
	return func(row pgx.Row) error {
		var found int
		if err := row.Scan(&found); err != nil {
			return err
		}
		if found != n {
			return ErrMoved
		}
		return nil
	}
}

// ErrMoved means that a checkpoint is not where the caller expected it, or an event is gone.
var ErrMoved = errors.New("a checkpoint has moved, or an event is gone")

// Ends returns the position of the last record of each log. Records of the same log must be
// adjacent.
func Ends(records []events.Record) (list []store.Position) {
	for _, r := range LastRecords(records) {
		list = append(list, store.Position{Workspace: r.Workspace, Seq: r.Seq})
	}
	return list
}

// LastRecords returns the last record of each log, as Ends does.
func LastRecords(records []events.Record) (list []events.Record) {
	for i, r := range records {
		if i+1 == len(records) || records[i+1].Workspace != r.Workspace {
			list = append(list, r)
		}
	}
	return list
}

// A Batcher is a pool or a transaction.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// CheckComplete reports an error if an event is missing at the end of a log: the log is in list
// but not in ends, so nothing was read of it, although its head is farther on.
func CheckComplete(ctx context.Context, db Batcher, list, ends []store.Position) error {
	read := map[events.ID]bool{}
	for _, p := range ends {
		read[p.Workspace] = true
	}
	b := &pgx.Batch{}
	var missing error
	for _, p := range list {
		if read[p.Workspace] {
			continue
		}
		b.Queue(`
			select head from logs where workspace_id = $1 and head > $2
			and not exists (select from events where workspace_id = $1 and seq = $2 + 1)`, p.Workspace, p.Seq,
		).Query(func(rows pgx.Rows) error {
			var head int64
			_, err := pgx.ForEachRow(rows, []any{&head}, func() error {
				missing = fmt.Errorf("log %s: event %d is missing: the log ends before its head, %d", p.Workspace, p.Seq+1, head)
				return nil
			})
			return err
		})
	}
	if b.Len() == 0 {
		return nil
	}
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("look for missing events: %w", err)
	}
	return missing
}
