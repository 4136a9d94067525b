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

// A command that comes to nothing because others were faster waits its turn: as
// long as its caller does, but for what it takes to answer them.
const (
	waitMost   = 25 * time.Second // for whoever sets no deadline
	answerTime = time.Second
	pauseLeast = time.Millisecond // after the log was locked in vain, which nobody should do often
	pauseMost  = 250 * time.Millisecond
)

// untilAnswer returns ctx with the deadline of a command.
func untilAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := waitMost
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, max(left-answerTime, left*9/10))
	}
	return context.WithTimeout(ctx, wait)
}

// A footing is what a decision is made on.
type footing int

// The footings, each for those who got nowhere on the one before.
const (
	remembered footing = iota // what is in memory
	current                   // what is in the log
	exclusive                 // what is in the log while nobody else can append to it
)

// An offside says that a decision needs what it cannot have while the log is locked,
// where nothing waits for what another command of this process holds: that one
// may wait for the log.
type offside struct {
	held    *fold   // by another command; nil if a stream has to be read from its beginning
	footing footing // on which it can go on
}

func (*offside) Error() string { return "not while the log is locked" }

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
		off, _ := errors.AsType[*offside](err)
		switch {
		case off != nil:
			w.footing = off.footing
			if off.held == nil {
				continue
			}
			if err := w.lock(off.held); err != nil {
				return done, w.late(err)
			}
		case !w.decided && w.footing == remembered:
			w.footing = current
		case w.decided && w.lost(err):
			w.yield(tries)
		default:
			return done, w.late(err)
		}
	}
	return done, w.late(w.ctx.Err())
}

// lost reports whether others were faster: a stream has moved on, or a number
// that was chosen is taken. The next attempt then stands on firmer ground.
func (w *work) lost(err error) bool {
	taken, _ := errors.AsType[*events.Taken](err)
	switch {
	case taken != nil && w.taken[taken.Key] == nil:
		w.gone = append(w.gone, taken.Key)
	case !errors.Is(err, events.ErrConflict):
		return false
	case w.footing == current:
		for _, h := range w.holds {
			if h.held && len(h.events) > 0 { // another command may hold the others by now
				h.fold.contended = true
			}
		}
	}
	w.footing = min(w.footing+1, exclusive)
	return true
}

// yield leaves the log to others after it was locked in vain, the longer the
// more often.
func (w *work) yield(tries int) {
	if tries < int(exclusive)+1 {
		return
	}
	pause := min(pauseLeast<<min(tries, 10), pauseMost)
	wait := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // no secret
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-w.ctx.Done():
	}
}

// late makes an answer of it that the time of a command is over.
func (w *work) late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(w.ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: waited for its turn: %w", fault.ErrBusy, err)
	}
	return err
}

// attempt lets decide work once, and stores what it decides.
func (w *work) attempt() (done events.Committed, err error) {
	w.reset()
	if w.footing == exclusive {
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
