package fold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	patience   = 5 * time.Second        // how long an answer waits for its view
	firstPause = 2 * time.Millisecond   // between two looks for whether it has come, doubled each time, up to
	longPause  = 200 * time.Millisecond // for what another process takes in nobody tells of
)

// positions let requests wait until views have come so far. Of those who wait
// for the same view of the same workspace one asks the database, and all hear of
// what it finds.
type positions struct {
	mu sync.Mutex
	of map[watched]*position
}

// A watched is a view of a workspace, "" for the inline views, in a database.
type watched struct {
	db        *pgxpool.Pool
	view      string
	workspace events.ID
}

// A position is how far a view of a workspace has come, as far as those know who
// wait for it.
type position struct {
	moved chan struct{} // has a value when it may have come further

	// Under positions.mu:
	waiting int           // how many know it
	asked   bool          // one of them asks the database
	seq     int64         // what was found so far
	changed chan struct{} // closed and replaced when seq or asked has changed
}

func newPositions() *positions { return &positions{of: map[watched]*position{}} }

func (ps *positions) join(w watched) *position {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.of[w]
	if p == nil {
		p = &position{moved: make(chan struct{}, 1), changed: make(chan struct{})}
		ps.of[w] = p
	}
	p.waiting++
	p.look() // a newcomer does not sit out the pause of the others
	return p
}

func (ps *positions) leave(w watched, p *position) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		delete(ps.of, w)
	}
}

// look has whoever asks do so at once.
func (p *position) look() {
	select {
	case p.moved <- struct{}{}:
	default: // that is about to happen
	}
}

// moved tells that a view may have come further in a workspace.
func (ps *positions) moved(w watched) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.of[w]; p != nil {
		p.look()
	}
}

// reached reports whether the view has come to seq already.
func (ps *positions) reached(ctx context.Context, w watched, seq int64) (bool, error) {
	ps.mu.Lock()
	known := int64(0)
	if p := ps.of[w]; p != nil {
		known = p.seq
	}
	ps.mu.Unlock()
	if known >= seq {
		return true, nil
	}
	at, err := w.seq(ctx)
	if err != nil {
		return false, fmt.Errorf("position of view %q: %w", w.view, err)
	}
	return at >= seq, nil
}

// await returns when the view has come to seq.
func (ps *positions) await(ctx context.Context, w watched, seq int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := ps.join(w)
	defer ps.leave(w, p)
	for {
		ps.mu.Lock()
		here, changed, mine := p.seq >= seq, p.changed, !p.asked
		p.asked = p.asked || !here
		ps.mu.Unlock()
		switch {
		case here:
			return nil
		case mine:
			return ps.ask(ctx, w, p, seq)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ErrNotCaughtUp
		}
	}
}

// ask asks the database, for all who wait, until the view has come to seq.
func (ps *positions) ask(ctx context.Context, w watched, p *position, seq int64) error {
	defer ps.found(p, 0, false) // another one goes on
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		select {
		case <-p.moved: // the next answer has that
		default:
		}
		at, err := w.seq(ctx)
		switch {
		case ctx.Err() != nil:
			return ErrNotCaughtUp
		case err != nil:
			return fmt.Errorf("position of view %q: %w", w.view, err)
		}
		ps.found(p, at, true)
		if at >= seq {
			return nil
		}
		select {
		case <-p.moved:
			pause = firstPause
		case <-time.After(pause):
		case <-ctx.Done():
			return ErrNotCaughtUp
		}
	}
}

// found tells the others how far the view has come, and whether it is still
// asked for.
func (ps *positions) found(p *position, seq int64, asked bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if seq <= p.seq && asked == p.asked {
		return
	}
	p.seq, p.asked = max(p.seq, seq), asked
	close(p.changed)
	p.changed = make(chan struct{})
}

// seq reads how far the view has come.
func (w watched) seq(ctx context.Context) (seq int64, err error) {
	if w.view == "" {
		err = w.db.QueryRow(ctx, `select coalesce((select head from logs where workspace_id = $1), 0)`, w.workspace).Scan(&seq)
		return seq, err
	}
	err = w.db.QueryRow(ctx, `select coalesce((select seq from checkpoints where workspace_id = $1 and view = $2), 0)`, w.workspace, w.view).Scan(&seq)
	return seq, err
}
