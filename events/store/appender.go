package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
)

const (
	laneCount        = 2               // appenders of a process
	spreadAbove      = 64              // up to so many waiting commits share the first appender
	laneCapacity     = 1024            // commits that may wait in a lane; further ones block in Append
	maxBatch         = 256             // commits that share a transaction, at most
	transactionLimit = 5 * time.Second // time limit of a transaction
)

// pending is a commit that waits to be stored, with its result.
type pending struct {
	commit   *events.Commit
	result   events.Committed
	err      error
	queuedAt time.Time // when Append was called
	done     chan struct{}
}

// A Batch describes one attempt to store commits in a transaction.
type Batch struct {
	Commits, Events int
	Waited          time.Duration // by the first of them, before the attempt began
	Took            time.Duration
	Stored          bool // false if nothing of the batch was stored
}

// newBatch describes an attempt that began at start.
func newBatch(list []*pending, start time.Time, stored bool) Batch {
	b := Batch{Commits: len(list), Waited: start.Sub(list[0].queuedAt), Took: time.Since(start), Stored: stored}
	for _, p := range list {
		b.Events += p.size()
	}
	return b
}

// size returns the number of events.
func (p *pending) size() (n int) {
	for _, w := range p.commit.Writes {
		n += len(w.Events)
	}
	return n
}

// Append adds a commit to its log, in one transaction with the other commits that wait at
// that moment. It reports
//   - [events.ErrConflict] if a stream has changed: decide again,
//   - [events.ErrTaken], as an [events.TakenError], if somebody else holds a key that it claims,
//   - [fault.ErrBusy] if nothing was stored because a row was locked for too long,
//   - [events.ErrOutcomeUnknown] if the connection was lost before the answer:
//     the commit may or may not be in the log.
func (s *Store) Append(ctx context.Context, c *events.Commit) (events.Committed, error) {
	if err := s.permit(ctx); err != nil {
		return events.Committed{}, fmt.Errorf("append: %w", err)
	}
	p := &pending{commit: c, queuedAt: time.Now(), done: make(chan struct{})}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	lane := s.lanes[0]                  // which a few waiting commits share: that makes the most of a transaction
	if s.waiting.Load() > spreadAbove { // by workspace, because two appenders that write to the same log would block each other
		lane = s.lanes[int(c.Workspace[15])%laneCount]
	}
	select {
	case lane <- p:
	case <-s.ended:
		return events.Committed{}, fault.ErrBusy
	case <-ctx.Done():
		return events.Committed{}, ctx.Err()
	}
	select { // once queued, the commit is carried out, whether or not the caller still waits
	case <-p.done:
		return p.result, p.err
	case <-s.ended:
		select {
		case <-p.done:
			return p.result, p.err
		default:
			return events.Committed{}, fault.ErrBusy
		}
	}
}

// runLane commits what waits in the lane until ctx ends.
func (s *Store) runLane(ctx context.Context, lane chan *pending) {
	batch := make([]*pending, 0, maxBatch)
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-lane:
			batch = append(batch[:0], p)
		}
		s.commit(gather(lane, batch), s.timeLimit*2/5)
	}
}

// gather collects the commits that wait in a lane. A caller that has just been answered may
// append again at once, so gather yields to other goroutines until nothing more arrives.
func gather(lane chan *pending, batch []*pending) []*pending {
	for idle := 0; idle < 2 && len(batch) < maxBatch; {
		select {
		case p := <-lane:
			batch, idle = append(batch, p), 0
		default:
			idle++
			runtime.Gosched()
		}
	}
	return batch
}

// commit stores a batch in one transaction, in which wait limits the wait for a locked row.
// Nothing of the batch is stored if one of its commits cannot be. Then each half is tried
// on its own, until the commit at fault stands alone and gets its error.
func (s *Store) commit(batch []*pending, wait time.Duration) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.timeLimit)
	err := s.transact(ctx, batch, wait)
	cancel()
	s.observe(newBatch(batch, start, err == nil))
	var at int
	if err != nil {
		at = splitPoint(batch, err)
	}
	if at > 0 {
		if errors.Is(err, context.DeadlineExceeded) {
			wait = s.timeLimit / 25 // the lock is known to be held, so wait less for it
		}
		s.commit(batch[:at], wait)
		s.commit(batch[at:], wait)
		return
	}
	for _, p := range batch {
		if errors.Is(err, errRepeated) {
			p.result, p.err = s.repeatedAnswer(p.commit)
		} else if p.err = err; err == nil {
			s.onAppend(p.commit.Workspace, p.result.Head)
		}
		close(p.done)
	}
}

// splitPoint returns where to split a batch that failed with err, or 0 if splitting would not
// help. If the head row of a log is locked, the commits of that log stay together:
// otherwise each would wait for the lock in turn.
func splitPoint(batch []*pending, err error) int {
	switch {
	case len(batch) == 1 || !rolledBack(err) || errors.Is(err, errNoConnection):
		return 0
	case sqlState(err) != lockNotAvailable:
		if errors.Is(err, context.DeadlineExceeded) {
			return 0
		}
		return len(batch) / 2
	}
	slices.SortStableFunc(batch, func(a, b *pending) int { return bytes.Compare(a.commit.Workspace[:], b.commit.Workspace[:]) })
	for i := range batch { // from the middle
		for _, at := range []int{len(batch)/2 - i, len(batch)/2 + i} {
			if at > 0 && at < len(batch) && batch[at-1].commit.Workspace != batch[at].commit.Workspace {
				return at
			}
		}
	}
	return 0
}

// rolledBack reports whether err proves that nothing was stored.
func rolledBack(err error) bool { return !errors.Is(err, events.ErrOutcomeUnknown) }

// repeatedAnswer returns the answer that the command got the first time.
func (s *Store) repeatedAnswer(c *events.Commit) (events.Committed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeLimit)
	defer cancel()
	answer, hash, ok, err := s.Answer(ctx, c.Workspace, c.Envelope.Actor.ID, c.Command.Key)
	switch {
	case err != nil:
		return answer, fmt.Errorf("read answer of a repeated command: %w", err)
	case !ok || !bytes.Equal(hash, c.Command.Hash):
		return answer, events.ErrKeyReused
	}
	return answer, nil
}
