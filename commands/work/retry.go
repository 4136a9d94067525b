package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"svc/events"
	"svc/fault"
)

// A command that conflicts is retried until shortly before its caller stops waiting.
const (
	maxWait       = 25 * time.Second // for callers without a deadline
	answerReserve = time.Second
	minBackoff    = time.Millisecond // after an attempt under the lock has failed; doubled each time
	maxBackoff    = 250 * time.Millisecond
)

// withDeadline returns ctx with the deadline for carrying out a command.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := maxWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, max(left-answerReserve, left*9/10))
	}
	return context.WithTimeout(ctx, wait)
}

// run runs decide until its decision is stored or is to do nothing. No fold stays locked
// afterwards. A panic becomes an error, and the folds in use are cleared, because they may
// be inconsistent.
func (w *Unit) run() (done events.Committed, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.forget()
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		w.release()
	}()
	for tries := 0; w.ctx.Err() == nil; tries++ {
		done, err = w.attempt()
		again, _ := errors.AsType[*restart](err)
		switch {
		case again != nil:
			w.strategy = again.strategy
			if again.lockedBy == nil {
				continue
			}
			if err := w.waitFor(again.lockedBy); err != nil {
				return done, busyIfTimedOut(w.ctx, err)
			}
		case !w.hasCommit && w.strategy == cached:
			w.strategy = fresh
		case w.hasCommit && err != nil && w.conflicted(err):
			backOff(w.ctx, tries)
		default:
			return done, busyIfTimedOut(w.ctx, err)
		}
	}
	return done, busyIfTimedOut(w.ctx, w.ctx.Err())
}

// conflicted reports whether err is a conflict: a stream has changed, or a number that
// decide chose is taken. It then selects the next strategy.
func (w *Unit) conflicted(err error) bool {
	taken, _ := errors.AsType[*events.TakenError](err)
	switch {
	case taken != nil && w.refusals[taken.Key] == nil:
		w.takenKeys = append(w.takenKeys, taken.Key)
	case !errors.Is(err, events.ErrConflict):
		return false
	case w.strategy == fresh:
		for _, h := range w.held {
			if h.held && len(h.events) > 0 { // the others may be held by another command by now
				h.fold.contended = true
			}
		}
	}
	w.strategy = min(w.strategy+1, locked)
	return true
}

// backOff waits after an attempt under the lock has failed: exponential backoff with
// jitter.
func backOff(ctx context.Context, tries int) {
	if tries < int(locked)+1 {
		return
	}
	pause := min(minBackoff<<min(tries, 10), maxBackoff)
	wait := time.NewTimer(pause/2 + rand.N(pause/2))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// busyIfTimedOut turns an error caused by the command's own deadline into fault.ErrBusy.
func busyIfTimedOut(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: waited for others: %w", fault.ErrBusy, err)
	}
	return err
}

// attempt runs decide once, stores its decision and applies it to the folds.
func (w *Unit) attempt() (done events.Committed, err error) {
	w.reset()
	if w.strategy == locked {
		done, err = w.log.Exclusively(w.ctx, w.Meta.Workspace, func(s events.Streams) (*events.Commit, error) {
			w.Streams = s
			return w.buildCommit()
		})
	} else {
		w.Streams = w.log
		var c *events.Commit
		if c, err = w.buildCommit(); c != nil {
			done, err = w.log.Append(w.ctx, c)
		}
	}
	if !w.hasCommit || err != nil {
		return done, err
	}
	for _, h := range w.held {
		if len(h.events) > 0 {
			h.fold.apply(done.Records)
			w.saveSnapshotIfDue(h.fold)
		}
	}
	return done, nil
}
