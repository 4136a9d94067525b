package fold

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/follow"
	"svc/events/store"
	"svc/fault"
)

const page = 1000 // events that a view folds in one transaction

// ErrNotCaughtUp says that a view did not reach the requested position in time.
var ErrNotCaughtUp = fault.New(fault.Busy, "not_caught_up",
	"This view has not reached the position that was asked for. Try again in a moment.")

// A Follower keeps the followed views up to date. Any number of processes may run one; only the
// leader of a view processes its pages. The rows of a view and its checkpoints change in the same
// transaction.
type Follower struct {
	db      *pgxpool.Pool
	log     *slog.Logger
	views   []View
	leads   func(view string) bool
	perView map[string]*follow.Follower // by view, for logs in which the view does not share the pass
	pass    *sharedPass
	waiters *positionWaiters
}

// NewFollower returns a follower of those views that are [Followed]. It does nothing until Run, and
// then processes the views for which leads returns true.
func NewFollower(db *pgxpool.Pool, views []View, leads func(view string) bool, log *slog.Logger) *Follower {
	f := &Follower{
		db: db, log: log, views: ViewsWithMode(views, Followed), leads: leads,
		perView: map[string]*follow.Follower{}, waiters: newPositionWaiters(),
	}
	for _, v := range f.views {
		f.perView[v.Name()] = follow.New(db, v.Name(), leads, log)
		f.perView[v.Name()].OnlyNotified()
	}
	f.pass = newSharedPass(f)
	return f
}

// Moved tells f that a log has grown, or that any log may have if workspace is zero. It does not
// block.
func (f *Follower) Moved(workspace events.ID, _ int64) {
	f.pass.follow.Moved(workspace)
	f.waiters.wake(viewKey{f.db, "", workspace})
}

// Stuck returns, for each view, the number of logs whose next event this process cannot process at
// present.
func (f *Follower) Stuck() map[string]int {
	stuck := map[string]int{}
	for name, v := range f.perView {
		stuck[name] = v.Stuck()
	}
	return stuck
}

// Run follows the logs until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { f.pass.run(ctx) })
	for _, v := range f.views {
		group.Go(func() {
			f.perView[v.Name()].Run(ctx, func(ctx context.Context, workspaces []events.ID) ([]events.ID, error) {
				return f.handlePage(ctx, v, workspaces)
			})
		})
	}
	group.Wait()
}

// handlePage folds the next events of logs and returns the logs that may have more. If a page of a
// single log has a poison event, handlePage halves the page until that event is alone in it, and
// parks the event.
func (f *Follower) handlePage(ctx context.Context, v View, workspaces []events.ID) (more []events.ID, err error) {
	limit := max(page/len(workspaces), 1)
	more, at, err := f.tryPage(ctx, v, workspaces, limit)
	if len(workspaces) == 1 && CausedByEvent(err) {
		more = workspaces
		for ; CausedByEvent(err) && limit > 1; _, at, err = f.tryPage(ctx, v, workspaces, limit) {
			limit /= 2
		}
		if CausedByEvent(err) {
			f.log.ErrorContext(ctx, "event is parked", "view", v.Name(), "workspace", workspaces[0], "err", err)
			err = f.parkNext(ctx, v, workspaces[0], at, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", v.Name(), err)
	}
	for _, workspace := range workspaces {
		f.waiters.wake(viewKey{f.db, v.Name(), workspace})
	}
	return more, nil
}

// tryPage folds the next events of logs into v, up to limit of each, and moves its checkpoints. It
// returns the checkpoint that the first log had.
func (f *Follower) tryPage(ctx context.Context, v View, workspaces []events.ID, limit int) (more []events.ID, at int64, err error) {
	err = pgx.BeginFunc(ctx, f.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, v.Name(), workspaces)
		if err != nil || len(list) == 0 {
			return err
		}
		at = list[0].Seq
		records, err := v.Read(ctx, tx, list, limit)
		if err != nil {
			return err
		}
		more = store.LogsWithMore(records, len(list), limit)
		ends := follow.Ends(records)
		if err := follow.CheckComplete(ctx, tx, list, ends); err != nil {
			return err
		}
		return FoldPage(ctx, tx, v, v.Name(), records, func(b *pgx.Batch) { follow.QueueMove(b, v.Name(), ends) })
	})
	return more, at, err
}

// parkNext parks the event after position at and moves v past it, unless the checkpoint has moved
// since.
func (f *Follower) parkNext(ctx context.Context, v View, workspace events.ID, at int64, why error) error {
	begin := pgx.TxOptions{BeginQuery: `begin; set local idle_in_transaction_session_timeout = '10s'`} // should this host vanish
	return pgx.BeginTxFunc(ctx, f.db, begin, func(tx pgx.Tx) error {
		seq, err := LockCheckpoint(ctx, tx, v, workspace)
		if err != nil || seq != at {
			return err
		}
		b := &pgx.Batch{}
		QueuePark(b, "parked", v.Name(), workspace, at+1, why)
		follow.QueueMove(b, v.Name(), []store.Position{{Workspace: workspace, Seq: at + 1}})
		return tx.SendBatch(ctx, b).Close()
	})
}

// LockCheckpoint locks the checkpoint of v in a workspace until tx ends, and returns its position.
func LockCheckpoint(ctx context.Context, tx pgx.Tx, v View, workspace events.ID) (seq int64, err error) {
	err = tx.QueryRow(ctx, `
		insert into checkpoints (workspace_id, view, seq) values ($1, $2, 0)
		on conflict (workspace_id, view) do update set seq = checkpoints.seq
		returning seq`, workspace, v.Name()).Scan(&seq)
	return seq, fault.Wrap(err, "lock checkpoint")
}

// FoldPage folds records into a table of v. What also queues is sent in the last round trip.
func FoldPage(ctx context.Context, tx pgx.Tx, v View, table string, records []events.Record, also func(*pgx.Batch)) error {
	b, steps := &pgx.Batch{}, []Step{}
	if len(records) > 0 {
		steps = append(steps, v.Load(b, table, records))
	}
	return runSteps(ctx, tx, b, steps, also)
}

// runSteps sends b, then runs the steps of all views in lockstep, with one round trip for each
// round of steps. What also queues is sent with the last one. Nil steps are ignored.
func runSteps(ctx context.Context, tx pgx.Tx, b *pgx.Batch, steps []Step, also func(*pgx.Batch)) error {
	isNil := func(s Step) bool { return s == nil }
	for steps = slices.DeleteFunc(steps, isNil); len(steps) > 0; steps = slices.DeleteFunc(steps, isNil) {
		if b.Len() > 0 {
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return fmt.Errorf("read rows: %w", err)
			}
		}
		b = &pgx.Batch{}
		for i, step := range steps {
			var err error
			if steps[i], err = step(b); err != nil {
				return err
			}
		}
	}
	if also(b); b.Len() == 0 {
		return nil
	}
	return fault.Wrap(tx.SendBatch(ctx, b).Close(), "write rows")
}

// Reached reports whether the view has processed the workspace's events up to seq. The name ""
// stands for the inline views.
func (f *Follower) Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error) {
	return f.waiters.reached(ctx, viewKey{f.db, view, workspace}, seq)
}

// Await waits until the view has processed the workspace's events up to seq. It returns
// [ErrNotCaughtUp] after five seconds. The name "" stands for the inline views.
func (f *Follower) Await(ctx context.Context, view string, workspace events.ID, seq int64) error {
	return f.waiters.await(ctx, viewKey{f.db, view, workspace}, seq)
}
