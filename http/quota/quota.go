// Package quota bounds what goes on at once in a process, such as exports, by
// semaphores whose slots are shared out: no person and no workspace holds more
// than a quarter of them, and the last quarter is for those who hold none.
package quota

import (
	"context"
	"slices"
	"sync"
	"time"

	"svc/events"
	"svc/fault"
)

// share is the part of the slots, one in so many, that one person or workspace
// may hold, and that is kept for those who hold none.
const share = 4

// restFactor is how much longer than its use a slot rests: whoever insists has each
// of theirs for a quarter of the time.
const restFactor = 3

// ErrShare says that whoever asks has their share already.
var ErrShare = fault.New(fault.RateLimited, "rate_limited",
	"As many of these are under way for you, or for the workspace, as may be. Wait for one to end.")

// A Bound is how many of something may go on at once in a process.
type Bound struct {
	Name   string        // for metrics
	Slots  int           // in all
	Caller int           // of those, for one person or service account; 0: their share
	Part   int           // of those, for one person or workspace; 0: a quarter
	Queue  int           // how many may wait for a slot, with shares as of the slots; 0: nobody waits
	Wait   time.Duration // for a slot, at most
	Retry  time.Duration // what those are told to wait who get none
	Alone  time.Duration // who has been alone for as long may hold all but the last part; 0: nobody
	Rest   time.Duration // of a slot after its use, at most, if its holder has more waiting; 0: none
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
	asked   [2]asking // the last two of different people in different workspaces
}

// An asking is who asked for a slot, and when.
type asking struct {
	holder Holder
	at     time.Time
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

// refusal returns why one more of most is not for those parties, each of which may
// hold part of them; nil if it is.
func (c *count) refusal(list []party, most, part, caller int) *fault.Fault {
	holdsNone := true
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
	if free := most - c.all; free <= 0 || free <= kept(most) && !holdsNone {
		return fault.ErrBusy
	}
	return nil
}

// kept is how many of most are for those who hold none.
func kept(most int) int { return most / share }

// A waiter waits for a slot.
type waiter struct {
	holder  Holder
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
	w, err := s.enter(h, parties)
	begun := time.Now()
	release = func() { s.restThenRelease(h, parties, time.Since(begun)) }
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
		begun = time.Now()
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
func (s *Semaphore) enter(h Holder, parties []party) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(h)
	refusal := s.refusal(h, parties)
	if refusal == nil {
		s.slots.add(parties, 1)
		return nil, nil
	}
	if s.bound.Queue == 0 {
		return nil, s.refuse(refusal)
	}
	if full := s.waiting.refusal(parties, s.bound.Queue, s.part(h, s.bound.Queue), 0); full != nil {
		return nil, s.refuse(full)
	}
	w := &waiter{holder: h, parties: parties, granted: make(chan struct{})}
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
		refusal := s.refusal(w.holder, w.parties)
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

// refusal returns why a holder gets no slot, nil if they may have one.
func (s *Semaphore) refusal(h Holder, parties []party) *fault.Fault {
	part := s.part(h, s.bound.Slots)
	if s.bound.Part > 0 && !s.alone(h) {
		part = min(part, s.bound.Part)
	}
	return s.slots.refusal(parties, s.bound.Slots, part, s.bound.Caller)
}

// part is how many of most a holder may have.
func (s *Semaphore) part(h Holder, most int) int {
	if s.bound.Alone > 0 && s.alone(h) {
		return most - kept(most)
	}
	return max(most/share, 1)
}

// note notes that a holder asks.
func (s *Semaphore) note(h Holder) {
	if s.bound.Alone == 0 {
		return
	}
	if !s.asked[0].holder.related(h) {
		s.asked[1] = s.asked[0]
	}
	s.asked[0] = asking{h, time.Now()}
}

// alone reports whether nobody else has asked of late.
func (s *Semaphore) alone(h Holder) bool {
	for _, a := range s.asked {
		if !a.holder.related(h) && time.Since(a.at) < s.bound.Alone {
			return false
		}
	}
	return true
}

// related reports whether two are of one person, or in one workspace.
func (h Holder) related(to Holder) bool { return h.Person == to.Person || h.Workspace == to.Workspace }

// restThenRelease gives a slot back after its use, or when it has rested.
func (s *Semaphore) restThenRelease(h Holder, parties []party, took time.Duration) {
	if rest := min(restFactor*took, s.bound.Rest); rest > 0 && s.insists(h, parties) {
		time.AfterFunc(rest, func() { s.release(parties) })
		return
	}
	s.release(parties)
}

// insists reports whether a holder has more waiting than gets a slot. Where a holder
// may have more while alone, it takes others too, whom that may hold up.
func (s *Semaphore) insists(h Holder, parties []party) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound.Alone > 0 && s.alone(h) {
		return false
	}
	return slices.ContainsFunc(parties, func(p party) bool { return s.waiting.of[p] > 0 })
}

// release gives a slot back, to the first in the queue who may have it.
func (s *Semaphore) release(parties []party) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.add(parties, -1)
	for i := 0; i < len(s.queue); {
		w := s.queue[i]
		if s.refusal(w.holder, w.parties) != nil {
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
