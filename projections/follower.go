package projections

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
)

const (
	page     = 1000            // events that a view takes in together
	poll     = time.Second     // how often it looks for what nobody told it of
	patience = 5 * time.Second // how long an answer waits for its view
)

// How long a view rests in a workspace whose next page it could not take in:
// twice as long each time.
const (
	rest     = time.Second
	restMost = time.Minute
)

// ErrNotCaughtUp says that a view has not reached the position asked for.
var ErrNotCaughtUp = fault.New(fault.Unavailable, "not_caught_up", "This view has not reached the position that was asked for. Try again in a moment.")

// A Follower keeps the followed views up to date. Any number of processes may
// run one: the one that leads a view takes in its pages, and where two believe
// that they lead, the checkpoint's row lets one at a time. The rows of the view
// and the checkpoint change in the same transaction.
type Follower struct {
	db    *pgxpool.Pool
	leads func(view string) bool
	log   *slog.Logger

	mu       sync.Mutex
	dirty    map[string]map[events.ID]bool // by view: workspaces that moved
	wake     map[string]chan struct{}
	stuck    map[string]int // by view: logs in which it stands still
	progress chan struct{}  // closed and replaced whenever a view moved
}

// NewFollower returns a follower that does nothing until it runs, and then keeps
// the views that it leads.
func NewFollower(db *pgxpool.Pool, leads func(view string) bool, log *slog.Logger) *Follower {
	f := &Follower{db: db, leads: leads, log: log, dirty: map[string]map[events.ID]bool{}, wake: map[string]chan struct{}{}, stuck: map[string]int{}, progress: make(chan struct{})}
	for _, v := range followedViews {
		f.dirty[v.Name()], f.wake[v.Name()], f.stuck[v.Name()] = map[events.ID]bool{}, make(chan struct{}, 1), 0
	}
	f.Moved(events.ID{}, 0) // before it was there
	return f
}

// Moved tells f that a log has grown, or any if workspace is zero. It does not block.
func (f *Follower) Moved(workspace events.ID, _ int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for view, list := range f.dirty {
		list[workspace] = true
		select {
		case f.wake[view] <- struct{}{}:
		default: // it is awake already
		}
	}
}

// Run follows the logs until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, v := range followedViews {
		group.Go(func() { f.follow(ctx, v) })
	}
	group.Wait()
}

func (f *Follower) follow(ctx context.Context, v View) {
	stuck := map[events.ID]stand{}
	look := time.NewTicker(poll)
	defer look.Stop()
	for ctx.Err() == nil {
		everywhere := false
		select {
		case <-ctx.Done():
		case <-f.wake[v.Name()]:
		case <-look.C:
			everywhere = true
		}
		list := f.take(v)
		if !f.leads(v.Name()) {
			clear(stuck) // whoever leads finds out
			f.stands(v, 0)
			continue
		}
		if everywhere || slices.Contains(list, events.ID{}) {
			list = f.behind(ctx, v)
		}
		for _, workspace := range list {
			if time.Now().Before(stuck[workspace].until) {
				continue // it is found again
			}
			err := f.catchUp(ctx, v, workspace)
			switch {
			case err == nil:
				delete(stuck, workspace)
			case ctx.Err() == nil:
				stuck[workspace] = stuck[workspace].longer()
				f.log.ErrorContext(ctx, "view stands still", "view", v.Name(), "workspace", workspace, "again_in", stuck[workspace].rest, "err", err)
			}
			f.stands(v, len(stuck))
		}
	}
}

// A stand says how long a view that stands still in a workspace is left alone.
type stand struct {
	rest  time.Duration
	until time.Time
}

func (s stand) longer() stand {
	after := min(max(2*s.rest, rest), restMost)
	return stand{after, time.Now().Add(after)}
}

// take returns the workspaces that moved since it was last called.
func (f *Follower) take(v View) (list []events.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for workspace := range f.dirty[v.Name()] {
		list = append(list, workspace)
	}
	clear(f.dirty[v.Name()])
	return list
}

// behind finds the workspaces in which v is behind.
func (f *Follower) behind(ctx context.Context, v View) []events.ID {
	rows, _ := f.db.Query(ctx, `
		select l.workspace_id from logs l
		left join checkpoints c on c.workspace_id = l.workspace_id and c.view = $1
		where l.head > coalesce(c.seq, 0)`, v.Name())
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "find workspaces that moved", "view", v.Name(), "err", err)
	}
	return list
}

func (f *Follower) catchUp(ctx context.Context, v View, workspace events.ID) error {
	for ctx.Err() == nil {
		more, err := f.takePage(ctx, v, workspace, page)
		if err != nil {
			return err
		}
		f.mu.Lock()
		close(f.progress)
		f.progress = make(chan struct{})
		f.mu.Unlock()
		if !more {
			return nil
		}
	}
	return ctx.Err()
}

// takePage takes in the next events of a log, up to limit, and tells whether
// there may be more. A page that has an event which can never be taken in is
// halved until that event stands alone; then the view goes on without it.
func (f *Follower) takePage(ctx context.Context, v View, workspace events.ID, limit int) (more bool, err error) {
	n, at, err := f.tryPage(ctx, v, workspace, limit)
	switch {
	case poisonous(err) && limit > 1:
		return f.takePage(ctx, v, workspace, limit/2)
	case poisonous(err):
		f.log.ErrorContext(ctx, "event is parked", "view", v.Name(), "workspace", workspace, "err", err)
		return true, f.parkNext(ctx, v, workspace, at, err)
	case err != nil:
		return false, fmt.Errorf("view %s of %s: %w", v.Name(), workspace, err)
	}
	return n == limit || limit < page, nil
}

// tryPage folds the next events of a log into v and moves its checkpoint, which
// was at.
func (f *Follower) tryPage(ctx context.Context, v View, workspace events.ID, limit int) (n int, at int64, err error) {
	err = pgx.BeginFunc(ctx, f.db, func(tx pgx.Tx) error {
		if at, err = lockCheckpoint(ctx, tx, v, workspace); err != nil {
			return err
		}
		records, err := v.after(ctx, tx, workspace, at, limit)
		if err != nil || len(records) == 0 {
			return err
		}
		n = len(records)
		return takeIn(ctx, tx, v, v.Name(), records, func(b *pgx.Batch) {
			queueCheckpoint(b, v, workspace, records[n-1].Seq)
		})
	})
	return n, at, err
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

// takeIn folds records into a table of v, and queues whatever else belongs to
// the same round trip.
func takeIn(ctx context.Context, tx pgx.Tx, v View, table string, records []events.Record, also func(*pgx.Batch)) error {
	if len(records) == 0 {
		return nil
	}
	read, write := &pgx.Batch{}, &pgx.Batch{}
	change := v.load(read, table, records)
	if err := tx.SendBatch(ctx, read).Close(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	if err := change(write); err != nil {
		return err
	}
	also(write)
	if err := tx.SendBatch(ctx, write).Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return nil
}

// Await returns when the view, of that name, has taken in the workspace's
// events up to seq. It waits five seconds at most and then reports
// [ErrNotCaughtUp]. The name "" stands for the inline views.
func (f *Follower) Await(ctx context.Context, view string, workspace events.ID, seq int64) error {
	return f.await(ctx, f.db, view, workspace, seq)
}

func (f *Follower) await(ctx context.Context, db *pgxpool.Pool, view string, workspace events.ID, seq int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sql := `select coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0)`
	if view == "" {
		sql = `select coalesce((select head from logs where workspace_id = $1 and $2 = ''), 0)`
	}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, poll/10) {
		f.mu.Lock()
		progress := f.progress
		f.mu.Unlock()
		var at int64
		err := db.QueryRow(ctx, sql, workspace, view).Scan(&at)
		switch {
		case ctx.Err() != nil:
			return ErrNotCaughtUp
		case err != nil:
			return fmt.Errorf("position of view %q: %w", view, err)
		case at >= seq:
			return nil
		}
		select {
		case <-progress:
		case <-time.After(pause): // another process may have moved it
		case <-ctx.Done():
			return ErrNotCaughtUp
		}
	}
}
