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
	"svc/fault"
)

const page = 1000 // events that a view takes in together

// ErrNotCaughtUp says that a view has not reached the position asked for.
var ErrNotCaughtUp = fault.New(fault.Busy, "not_caught_up",
	"This view has not reached the position that was asked for. Try again in a moment.")

// A Follower keeps the followed views up to date. Any number of processes may
// run one: the one that leads a view takes in its pages. The rows of the view
// and its checkpoints change in the same transaction.
type Follower struct {
	db        *pgxpool.Pool
	log       *slog.Logger
	views     []View
	leads     func(view string) bool
	alone     map[string]*follow.Follower // of each view, for the logs in which it is not level
	shared    *shared
	positions *positions
}

// NewFollower returns a follower that does nothing until it runs, and then keeps
// those of the views that are [Followed] and that it leads.
func NewFollower(db *pgxpool.Pool, views []View, leads func(view string) bool, log *slog.Logger) *Follower {
	f := &Follower{
		db: db, log: log, views: ThoseKept(views, Followed), leads: leads, alone: map[string]*follow.Follower{}, positions: newPositions(),
	}
	for _, v := range f.views {
		f.alone[v.Name()] = follow.New(db, v.Name(), leads, log)
		f.alone[v.Name()].OnlyNotified()
	}
	f.shared = newShared(f)
	return f
}

// Moved tells f that a log has grown, or any if workspace is zero. It does not block.
func (f *Follower) Moved(workspace events.ID, _ int64) {
	f.shared.follow.Moved(workspace)
	f.positions.moved(watched{f.db, "", workspace})
}

// Stuck returns, by view, in how many logs it stands still: its next event
// cannot be taken in by this process at present.
func (f *Follower) Stuck() map[string]int {
	stuck := map[string]int{}
	for name, v := range f.alone {
		stuck[name] = v.Stuck()
	}
	return stuck
}

// Run follows the logs until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { f.shared.run(ctx) })
	for _, v := range f.views {
		group.Go(func() {
			f.alone[v.Name()].Run(ctx, func(ctx context.Context, workspaces []events.ID) ([]events.ID, error) {
				return f.takePage(ctx, v, workspaces)
			})
		})
	}
	group.Wait()
}

// takePage takes in the next events of logs, and tells of which there may be
// more. A page of one log that has an event which can never be taken in is
// halved until that event stands alone; then the view goes on without it.
func (f *Follower) takePage(ctx context.Context, v View, workspaces []events.ID) (more []events.ID, err error) {
	limit := max(page/len(workspaces), 1)
	more, at, err := f.tryPage(ctx, v, workspaces, limit)
	if len(workspaces) == 1 && poisonous(err) {
		more = workspaces
		for ; poisonous(err) && limit > 1; _, at, err = f.tryPage(ctx, v, workspaces, limit) {
			limit /= 2
		}
		if poisonous(err) {
			f.log.ErrorContext(ctx, "event is parked", "view", v.Name(), "workspace", workspaces[0], "err", err)
			err = f.parkNext(ctx, v, workspaces[0], at, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", v.Name(), err)
	}
	for _, workspace := range workspaces {
		f.positions.moved(watched{f.db, v.Name(), workspace})
	}
	return more, nil
}

// tryPage folds the next events of logs into v, up to limit of each, and moves
// its checkpoints. That of the first log was at.
func (f *Follower) tryPage(ctx context.Context, v View, workspaces []events.ID, limit int) (more []events.ID, at int64, err error) {
	err = pgx.BeginFunc(ctx, f.db, func(tx pgx.Tx) error {
		list, err := follow.LockCheckpoints(ctx, tx, v.Name(), workspaces)
		if err != nil || len(list) == 0 {
			return err
		}
		at = list[0].Seq
		records, err := v.After(ctx, tx, list, limit)
		if err != nil {
			return err
		}
		more = follow.LogsWithMore(records, limit)
		ends := follow.Ends(records)
		if err := follow.CheckComplete(ctx, tx, list, ends); err != nil {
			return err
		}
		return TakeIn(ctx, tx, v, v.Name(), records, func(b *pgx.Batch) { follow.QueueMove(b, v.Name(), ends) })
	})
	return more, at, err
}

// parkNext moves v past the event that follows at, unless somebody has.
func (f *Follower) parkNext(ctx context.Context, v View, workspace events.ID, at int64, why error) error {
	return pgx.BeginFunc(ctx, f.db, func(tx pgx.Tx) error {
		seq, err := lockCheckpoint(ctx, tx, v, workspace)
		if err != nil || seq != at {
			return err
		}
		b := &pgx.Batch{}
		queuePark(b, v.Name(), workspace, at+1, why)
		queueCheckpoint(b, v, workspace, at+1)
		return tx.SendBatch(ctx, b).Close()
	})
}

// lockCheckpoint keeps others from moving v in a workspace until tx ends, and
// returns where it stands.
func lockCheckpoint(ctx context.Context, tx pgx.Tx, v View, workspace events.ID) (seq int64, err error) {
	err = tx.QueryRow(ctx, `
		insert into checkpoints (workspace_id, view, seq) values ($1, $2, 0)
		on conflict (workspace_id, view) do update set seq = checkpoints.seq
		returning seq`, workspace, v.Name()).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return seq, nil
}

func queueCheckpoint(b *pgx.Batch, v View, workspace events.ID, seq int64) {
	b.Queue(`
		insert into checkpoints (workspace_id, view, seq) values ($1, $2, $3)
		on conflict (workspace_id, view) do update set seq = excluded.seq`, workspace, v.Name(), seq)
}

// TakeIn folds records into a table of v, and queues whatever else belongs to
// the same round trip.
func TakeIn(ctx context.Context, tx pgx.Tx, v View, table string, records []events.Record, also func(*pgx.Batch)) error {
	if len(records) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	return carryOut(ctx, tx, b, []Step{v.Load(b, table, records)}, also)
}

// carryOut sends b, and what the steps of views that follow from it queue, those of
// all views together; with the last of it goes what also queues. A step may be nil.
func carryOut(ctx context.Context, tx pgx.Tx, b *pgx.Batch, steps []Step, also func(*pgx.Batch)) error {
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
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// Reached reports whether the view, of that name as for [Follower.Await], has taken
// in the workspace's events up to seq.
func (f *Follower) Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error) {
	return f.positions.reached(ctx, watched{f.db, view, workspace}, seq)
}

// Await returns when the view, of that name, has taken in the workspace's
// events up to seq. It waits five seconds at most and then reports
// [ErrNotCaughtUp]. The name "" stands for the inline views.
func (f *Follower) Await(ctx context.Context, view string, workspace events.ID, seq int64) error {
	return f.positions.await(ctx, watched{f.db, view, workspace}, seq)
}
