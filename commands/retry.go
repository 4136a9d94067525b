package commands

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

// A command that conflicts with others is retried as long as its caller waits, but
// for the time that it takes to answer them.
const (
	maxWait    = 25 * time.Second // for whoever sets no deadline
	answerTime = time.Second
	minBackoff = time.Millisecond // after the log was locked in vain; doubled each time
	maxBackoff = 250 * time.Millisecond
)

// withDeadline returns ctx with the deadline of a command.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := maxWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, max(left-answerTime, left*9/10))
	}
	return context.WithTimeout(ctx, wait)
}

// A strategy is how a decision is kept from resting on what others have changed.
type strategy int

// The strategies. A command begins with the first and goes on to the next one when
// it conflicts.
const (
	cached strategy = iota // optimistic, on the folds in memory: the append compares versions
	fresh                  // optimistic, on the log as it was just read
	locked                 // pessimistic: on the log while nobody else can append to it
)

// A restart says that a decision has to be made again under another strategy. While
// the log is locked nothing waits for a fold that another command has locked: that
// one may wait for the log, and both would for ever.
type restart struct {
	lockedBy *fold // what another command has locked, to be waited for first; nil if a stream has to be read from its beginning
	strategy strategy
}

func (*restart) Error() string { return "not while the log is locked" }

// run lets decide work until what it decides is stored, or is nothing. Whatever
// happens meanwhile, no fold stays locked. A panic becomes an error, and the
// folds at hand are forgotten: they may have been changed by half.
func (w *work) run() (done events.Committed, err error) {
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
			if err := w.lock(again.lockedBy); err != nil {
				return done, w.timedOut(err)
			}
		case !w.decided && w.strategy == cached:
			w.strategy = fresh
		case w.decided && w.conflicted(err):
			w.backOff(tries)
		default:
			return done, w.timedOut(err)
		}
	}
	return done, w.timedOut(w.ctx.Err())
}

// conflicted reports whether err is a conflict: a stream has moved on, or a number
// that was chosen is taken. The next attempt has the next strategy.
func (w *work) conflicted(err error) bool {
	taken, _ := errors.AsType[*events.Taken](err)
	switch {
	case taken != nil && w.refusals[taken.Key] == nil:
		w.takenKeys = append(w.takenKeys, taken.Key)
	case !errors.Is(err, events.ErrConflict):
		return false
	case w.strategy == fresh:
		for _, h := range w.holds {
			if h.held && len(h.events) > 0 { // another command may hold the others by now
				h.fold.contended = true
			}
		}
	}
	w.strategy = min(w.strategy+1, locked)
	return true
}

// backOff leaves the log to others after it was locked in vain: it backs off
// exponentially, with jitter.
func (w *work) backOff(tries int) {
	if tries < int(locked)+1 {
		return
	}
	pause := min(minBackoff<<min(tries, 10), maxBackoff)
	wait := time.NewTimer(pause/2 + rand.N(pause/2))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-w.ctx.Done():
	}
}

// timedOut makes of an error that the deadline of a command has passed the one that
// is answered.
func (w *work) timedOut(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(w.ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: waited for others: %w", fault.ErrBusy, err)
	}
	return err
}

// attempt lets decide work once, and stores what it decides.
func (w *work) attempt() (done events.Committed, err error) {
	w.reset()
	if w.strategy == locked {
		done, err = w.handler.log.Exclusively(w.ctx, w.meta.Workspace, func(s events.Streams) (*events.Commit, error) {
			w.streams = s
			return w.commit()
		})
	} else {
		w.streams = w.handler.log
		var c *events.Commit
		if c, err = w.commit(); c != nil {
			done, err = w.handler.log.Append(w.ctx, c)
		}
	}
	if w.decided && err == nil {
		w.take(done.Records)
	}
	return done, err
}
