package fold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

// AwaitTimeout is how long a request waits for its views.
const AwaitTimeout = 5 * time.Second

const (
	minPollPause = 2 * time.Millisecond   // between polls; doubles up to maxPollPause
	maxPollPause = 200 * time.Millisecond // progress of another process is only seen by polling
)

// positionWaiters lets requests wait until a view has reached a position. Of all requests that wait for
// the same view and workspace one polls the database, and shares the result with the others.
type positionWaiters struct {
	mu     sync.Mutex
	byView map[viewKey]*position
}

// A viewKey identifies a view of a workspace in a database. The view "" stands for the inline
// views.
type viewKey struct {
	db        *pgxpool.Pool
	view      string
	workspace events.ID
}

// A position is the last known position of a view in a workspace. It exists while somebody waits
// for it.
type position struct {
	pollNow chan struct{} // holds a value when the view may have advanced

	// Under positionWaiters.mu:
	waiters int           // number of requests that wait
	polled  bool          // one of them polls the database
	seq     int64         // highest position seen
	changed chan struct{} // closed and replaced when seq or polled changes
}

func newPositionWaiters() *positionWaiters { return &positionWaiters{byView: map[viewKey]*position{}} }

func (ps *positionWaiters) join(w viewKey) *position {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byView[w]
	if p == nil {
		p = &position{pollNow: make(chan struct{}, 1), changed: make(chan struct{})}
		ps.byView[w] = p
	}
	p.waiters++
	p.requestPoll() // a newcomer does not wait for the end of the pause
	return p
}

func (ps *positionWaiters) leave(w viewKey, p *position) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		delete(ps.byView, w)
	}
}

// requestPoll makes the polling request poll at once.
func (p *position) requestPoll() {
	select {
	case p.pollNow <- struct{}{}:
	default: // a poll is already due
	}
}

// wake wakes those who wait for a view that may have advanced.
func (ps *positionWaiters) wake(w viewKey) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.byView[w]; p != nil {
		p.requestPoll()
	}
}

// reached reports whether the view has reached seq. It asks the database only if the cached
// position is lower.
func (ps *positionWaiters) reached(ctx context.Context, w viewKey, seq int64) (bool, error) {
	ps.mu.Lock()
	known := int64(0)
	if p := ps.byView[w]; p != nil {
		known = p.seq
	}
	ps.mu.Unlock()
	if known >= seq {
		return true, nil
	}
	at, err := w.readSeq(ctx)
	if err != nil {
		return false, fmt.Errorf("read position of view %q: %w", w.view, err)
	}
	return at >= seq, nil
}

// await returns nil when the view has reached seq, and ErrNotCaughtUp when ctx ends or the time is
// over.
func (ps *positionWaiters) await(ctx context.Context, w viewKey, seq int64) error {
	ctx, cancel := context.WithTimeout(ctx, AwaitTimeout)
	defer cancel()
	p := ps.join(w)
	defer ps.leave(w, p)
	for {
		ps.mu.Lock()
		here, changed, mine := p.seq >= seq, p.changed, !p.polled
		p.polled = p.polled || !here
		ps.mu.Unlock()
		switch {
		case here:
			return nil
		case mine:
			return ps.poll(ctx, w, p, seq)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ErrNotCaughtUp
		}
	}
}

// poll polls the database on behalf of all who wait, until the view has reached seq.
func (ps *positionWaiters) poll(ctx context.Context, w viewKey, p *position, seq int64) error {
	defer ps.publish(p, 0, false) // another waiter takes over polling
	for pause := minPollPause; ; pause = min(2*pause, maxPollPause) {
		select {
		case <-p.pollNow: // the query below sees that progress
		default:
		}
		at, err := w.readSeq(ctx)
		switch {
		case ctx.Err() != nil:
			return ErrNotCaughtUp
		case err != nil:
			return fmt.Errorf("read position of view %q: %w", w.view, err)
		}
		ps.publish(p, at, true)
		if at >= seq {
			return nil
		}
		select {
		case <-p.pollNow:
			pause = minPollPause
		case <-time.After(pause):
		case <-ctx.Done():
			return ErrNotCaughtUp
		}
	}
}

// RetryBehind calls read until it returns something else than [ErrNotCaughtUp], but for no longer than
// [Follower.Await] waits. It is for reads of a pool with connections to several servers: Await asks one of
// them, and the next read may be answered by another.
func RetryBehind[T any](ctx context.Context, read func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, AwaitTimeout)
	defer cancel()
	for pause := minPollPause; ; pause = min(2*pause, maxPollPause) {
		found, err := read()
		if !errors.Is(err, ErrNotCaughtUp) {
			return found, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return found, err
		}
	}
}

// publish publishes a position to the others, and whether somebody still polls.
func (ps *positionWaiters) publish(p *position, seq int64, polled bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if seq <= p.seq && polled == p.polled {
		return
	}
	p.seq, p.polled = max(p.seq, seq), polled
	close(p.changed)
	p.changed = make(chan struct{})
}

// readSeq reads the view's position from the database.
func (w viewKey) readSeq(ctx context.Context) (seq int64, err error) {
	if w.view == "" {
		err = w.db.QueryRow(ctx, `select coalesce((select head from logs where workspace_id = $1), 0)`, w.workspace).Scan(&seq)
		return seq, err
	}
	err = w.db.QueryRow(ctx, `
		select coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0)`, w.workspace, w.view).Scan(&seq)
	return seq, err
}
