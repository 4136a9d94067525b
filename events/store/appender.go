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
	lanes    = 2               // appenders of a process
	oneLane  = 64              // commits at once that share one appender
	queued   = 1024            // commits that may wait in a lane; further ones wait in Append
	together = 256             // commits that share a transaction at most
	patience = 5 * time.Second // how long a transaction may take
)

// pending is a commit on its way, with room for what becomes of it.
type pending struct {
	commit *events.Commit
	result events.Committed
	err    error
	since  time.Time // when it was handed in
	done   chan struct{}
}

// A Batch is one try to store commits in a transaction.
type Batch struct {
	Commits, Events int
	Waited          time.Duration // since the first of them was handed in
	Took            time.Duration
	Stored          bool // or nothing of it is
}

// newBatch describes commits that were begun with at a time.
func newBatch(list []*pending, start time.Time, stored bool) Batch {
	b := Batch{Commits: len(list), Waited: start.Sub(list[0].since), Took: time.Since(start), Stored: stored}
	for _, p := range list {
		b.Events += p.size()
	}
	return b
}

// size is how many events it has.
func (p *pending) size() (n int) {
	for _, w := range p.commit.Writes {
		n += len(w.Events)
	}
	return n
}

// Append adds a commit to its log, together with whatever other commits wait
// at that moment. It reports
//   - [events.ErrConflict] if a stream has moved on: decide again,
//   - [events.ErrTaken], as a [events.Taken], if somebody else holds a key that it claims,
//   - [fault.ErrBusy] if it is not stored because somebody held a row for too long,
//   - [events.ErrOutcomeUnknown] if the connection was lost before the answer:
//     the commit may or may not be in the log.
func (s *Store) Append(ctx context.Context, c *events.Commit) (events.Committed, error) {
	p := &pending{commit: c, since: time.Now(), done: make(chan struct{})}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.lane(c.Workspace) <- p:
	case <-s.ended:
		return events.Committed{}, fault.ErrBusy
	case <-ctx.Done():
		return events.Committed{}, ctx.Err()
	}
	select { // once queued it is carried out, whether or not the caller still waits
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

// lane chooses an appender. Few commits share one, which makes the most of a
// transaction; many are spread over all, a workspace's to the same one, because
// two that append to one log wait for each other.
func (s *Store) lane(workspace events.ID) chan *pending {
	if s.waiting.Load() <= oneLane {
		return s.lanes[0]
	}
	return s.lanes[int(workspace[15])%lanes]
}

// drive commits what waits in the lane until ctx ends.
func (s *Store) drive(ctx context.Context, lane chan *pending) {
	batch := make([]*pending, 0, together)
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-lane:
			batch = append(batch[:0], p)
		}
		s.commit(gather(lane, batch), s.patience*2/5)
	}
}

// gather takes what waits in a lane. Whoever was answered a moment ago may be
// about to come back, so it lets others run until no more comes of that.
func gather(lane chan *pending, batch []*pending) []*pending {
	for idle := 0; idle < 2 && len(batch) < together; {
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

// commit appends a batch in one transaction, in which a row that somebody holds is
// waited for as long as wait. Nothing of it is stored if one of its commits cannot
// be: then each half is tried by itself, until the one that is at fault stands
// alone and gets its error.
func (s *Store) commit(batch []*pending, wait time.Duration) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	err := s.transact(ctx, batch, wait)
	cancel()
	s.observe(newBatch(batch, start, err == nil))
	if at := half(batch, err); at > 0 {
		if errors.Is(err, context.DeadlineExceeded) {
			wait = s.patience / 25 // whoever held a row is known to do so
		}
		s.commit(batch[:at], wait)
		s.commit(batch[at:], wait)
		return
	}
	for _, p := range batch {
		if errors.Is(err, errRepeated) {
			p.result, p.err = s.repeat(p.commit)
		} else if p.err = err; err == nil {
			s.moved(p.commit.Workspace, p.result.Head)
		}
		close(p.done)
	}
}

// half says where to halve a batch that failed with err, 0 if that would not help.
// If somebody holds a log, its commits stay together: they would wait each by itself.
func half(batch []*pending, err error) int {
	switch {
	case err == nil || len(batch) == 1 || !rolledBack(err):
		return 0
	case code(err) != lockNotAvailable:
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

// rolledBack reports whether err proves that the transaction left no trace.
func rolledBack(err error) bool { return !errors.Is(err, events.ErrOutcomeUnknown) }

// repeat answers a command as it was answered the first time.
func (s *Store) repeat(c *events.Commit) (events.Committed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	answer, hash, ok, err := s.Answer(ctx, c.Workspace, c.Envelope.Actor.ID, c.Command.Key)
	switch {
	case err != nil:
		return answer, fmt.Errorf("answer of a repeated command: %w", err)
	case !ok || !bytes.Equal(hash, c.Command.Hash):
		return answer, events.ErrKeyReused
	}
	return answer, nil
}
