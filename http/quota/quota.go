// Package quota bounds what goes on at once in a process, such as exports, by
// semaphores whose slots are shared out: no person and no workspace holds more
// than a quarter of them, and the last quarter is for those who hold none.
package quota

import (
	"context"
	"sync"
	"time"

	"svc/events"
	"svc/fault"
)

// share is the part of the slots, one in so many, that one person or workspace
// may hold, and that is kept for those who hold none.
const share = 4

// ErrShare says that whoever asks has their share already.
var ErrShare = fault.New(fault.RateLimited, "rate_limited",
	"As many of these are under way for you, or for the workspace, as may be. Wait for one to end.")

// A Bound is how many of something may go on at once in a process.
type Bound struct {
	Name   string        // for metrics
	Slots  int           // in all
	Caller int           // of those, for one person or service account; 0: their share
	Queue  int           // how many may wait for a slot, with shares as of the slots; 0: nobody waits
	Wait   time.Duration // for a slot, at most
	Retry  time.Duration // what those are told to wait who get none
}

// A Holder is who has a slot. It counts for each of these that is not zero.
type Holder struct{ Caller, Person, Workspace events.ID }

// A role is in what way somebody holds a slot.
type role int

const (
	asCaller role = iota
	asPerson
	asWorkspace
)

type party struct {
	role role
	id   events.ID
}

func (h Holder) parties() []party {
	list := make([]party, 0, 3)
	for r, id := range []events.ID{asCaller: h.Caller, asPerson: h.Person, asWorkspace: h.Workspace} {
		if !id.IsZero() {
			list = append(list, party{role(r), id})
		}
	}
	return list
}

// A Semaphore gives out the slots of a bound.
type Semaphore struct {
	bound Bound

	mu      sync.Mutex
	slots   count
	waiting count
	queue   []*waiter // those who wait, the first come first
	refused Refused
}

// Refused counts those who got no slot.
type Refused struct{ Share, Full int64 }

// A count is of slots, or of those who wait for one.
type count struct {
	all int
	of  map[party]int
}

func (c *count) add(list []party, n int) {
	c.all += n
	for _, p := range list {
		if c.of[p] += n; c.of[p] == 0 {
			delete(c.of, p)
		}
	}
}

// refusal returns why one more of most is not for those parties, nil if it is.
func (c *count) refusal(list []party, most, caller int) *fault.Fault {
	part, holdsNone := max(most/share, 1), true
	for _, p := range list {
		limit := part
		if p.role == asCaller && caller > 0 {
			limit = min(caller, part)
		}
		if c.of[p] >= limit {
			return ErrShare
		}
		holdsNone = holdsNone && c.of[p] == 0
	}
	if free := most - c.all; free <= 0 || free <= most/share && !holdsNone {
		return fault.ErrBusy
	}
	return nil
}

// A waiter waits for a slot.
type waiter struct {
	parties []party
	granted chan struct{} // closed under the semaphore's lock
}

// New returns a semaphore with all its slots.
func New(b Bound) *Semaphore {
	return &Semaphore{bound: b, slots: count{of: map[party]int{}}, waiting: count{of: map[party]int{}}}
}

// Acquire takes a slot, and waits for one as long as the bound says. Call
// release once, when it is over. Whoever holds their share, or has as many
// waiting, is refused with [ErrShare]; if it is for others that there is no
// slot, with [fault.ErrBusy].
func (s *Semaphore) Acquire(ctx context.Context, h Holder) (release func(), err error) {
	parties := h.parties()
	release = func() { s.release(parties) }
	w, err := s.enter(parties)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return release, nil
	}
	late := time.NewTimer(s.bound.Wait)
	defer late.Stop()
	select {
	case <-w.granted:
		return release, nil
	case <-late.C:
	case <-ctx.Done():
	}
	if err := s.leave(ctx, w); err != nil {
		return nil, err
	}
	return release, nil
}

// enter takes a slot, or a place in the queue: then it returns that.
func (s *Semaphore) enter(parties []party) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := s.slots.refusal(parties, s.bound.Slots, s.bound.Caller)
	if refusal == nil {
		s.slots.add(parties, 1)
		return nil, nil
	}
	if s.bound.Queue == 0 {
		return nil, s.refuse(refusal)
	}
	if full := s.waiting.refusal(parties, s.bound.Queue, 0); full != nil {
		return nil, s.refuse(full)
	}
	w := &waiter{parties: parties, granted: make(chan struct{})}
	s.waiting.add(parties, 1)
	s.queue = append(s.queue, w)
	return w, nil
}

// leave takes w out of the queue and returns why it got no slot, nil if it has
// got one at the last moment.
func (s *Semaphore) leave(ctx context.Context, w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.queue {
		if other != w {
			continue
		}
		s.dequeue(i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		refusal := s.slots.refusal(w.parties, s.bound.Slots, s.bound.Caller)
		if refusal == nil { // a slot that was given back meanwhile
			s.slots.add(w.parties, 1)
			return nil
		}
		return s.refuse(refusal)
	}
	return nil
}

func (s *Semaphore) refuse(f *fault.Fault) error {
	if f == ErrShare {
		s.refused.Share++
	} else {
		s.refused.Full++
	}
	return f.With("bound", s.bound.Name).After(s.bound.Retry)
}

// release gives a slot back, to the first in the queue who may have it.
func (s *Semaphore) release(parties []party) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.add(parties, -1)
	for i := 0; i < len(s.queue); {
		w := s.queue[i]
		if s.slots.refusal(w.parties, s.bound.Slots, s.bound.Caller) != nil {
			i++
			continue
		}
		s.dequeue(i)
		s.slots.add(w.parties, 1)
		close(w.granted)
	}
}

func (s *Semaphore) dequeue(i int) {
	s.waiting.add(s.queue[i].parties, -1)
	s.queue = append(s.queue[:i], s.queue[i+1:]...)
}

// Usage returns how many hold a slot, how many wait for one, and how many got
// none so far.
func (s *Semaphore) Usage() (held, waiting int, refused Refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots.all, s.waiting.all, s.refused
}

// Name returns the name of the bound.
func (s *Semaphore) Name() string { return s.bound.Name }
