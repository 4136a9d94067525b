// Package fair limits concurrent work of a process, such as exports, by semaphores whose slots are
// shared fairly: no person and no workspace holds more than a quarter of the slots, and the last
// quarter is reserved for those who hold none.
package fair

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"svc/events"
	"svc/fault"
)

// shareDivisor defines the share of a person or workspace, and the reserve for those who hold no
// slot: slots divided by it.
const shareDivisor = 4

// cooldownFactor is how many times the duration of its use a slot cools down. A holder that always
// has more waiting uses its slots a quarter of the time.
const cooldownFactor = 3

// ErrShare says that the holder has its whole share already.
var ErrShare = fault.New(fault.RateLimited, "rate_limited",
	"Too many of these requests are in progress for you or for the workspace. Wait for one to finish.")

// A Bound configures a semaphore.
type Bound struct {
	Name        string        // for metrics
	Slots       int           // total
	PerCaller   int           // slots of one person or service account; 0 is no limit beyond the share
	PerParty    int           // slots of one person or workspace; 0 is a quarter. Idle holders are free from both, if set
	Queue       int           // length of the queue, which is shared like the slots; 0 is no queue
	Wait        time.Duration // longest wait for a slot
	Retry       time.Duration // Retry-After of a refusal
	IdleAfter   time.Duration // a holder without competition for this long may use all slots but the reserve; 0 is never
	MaxCooldown time.Duration // longest cooldown of a slot whose holder has more waiting; 0 is none
	Activity    *Activity     // the requests that count as competition; nil is those of this semaphore only
}

// An Activity records the last requests for slots of the semaphores that share it. A holder without
// competition for the slots of one semaphore may still compete with the holders of another.
type Activity struct {
	mu           sync.Mutex
	lastRequests [2]lastRequest // the last two by unrelated holders
}

// A Holder is who holds a slot. The slot counts against each id that is not zero.
type Holder struct{ Caller, Person, Workspace events.ID }

// A role is the kind of an id in a Holder.
type role int

const (
	asCaller role = iota
	asPerson
	asWorkspace
)

// A party is an id whose slots are counted.
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

// A Semaphore hands out the slots of a Bound.
type Semaphore struct {
	bound Bound

	mu       sync.Mutex
	slots    usage
	waiting  usage
	queue    []*waiter // in order of arrival
	refused  Refused
	activity *Activity
}

// A lastRequest is the last request of a holder.
type lastRequest struct {
	holder Holder
	at     time.Time
}

// Refused counts refusals: for using up the share, and for a full semaphore.
type Refused struct{ Share, Full int64 }

// A usage counts slots, or places in the queue.
type usage struct {
	all     int
	byParty map[party]int
}

func (c *usage) add(list []party, n int) {
	c.all += n
	for _, p := range list {
		if c.byParty[p] += n; c.byParty[p] == 0 {
			delete(c.byParty, p)
		}
	}
}

// refusal returns nil if the parties may have n more of total, and otherwise why not. Each party
// may hold perParty, and a caller perCaller if that is above 0.
func (c *usage) refusal(list []party, n, total, perParty, perCaller int) *fault.Fault {
	holdsNone := true
	for _, p := range list {
		limit := perParty
		if p.role == asCaller && perCaller > 0 {
			limit = min(perCaller, perParty)
		}
		if c.byParty[p]+n > limit {
			return ErrShare
		}
		holdsNone = holdsNone && c.byParty[p] == 0
	}
	if left := total - c.all - n; left < 0 || left < total/shareDivisor && !holdsNone {
		return fault.ErrBusy
	}
	return nil
}

// A waiter is an entry of the queue.
type waiter struct {
	holder  Holder
	n       int
	parties []party
	granted chan struct{} // closed under the semaphore's lock
}

// New returns a semaphore with all slots free.
func New(b Bound) *Semaphore {
	return &Semaphore{
		bound: b, slots: usage{byParty: map[party]int{}}, waiting: usage{byParty: map[party]int{}},
		activity: cmp.Or(b.Activity, &Activity{}),
	}
}

// A Slot is what a holder has acquired. Its methods must not be called concurrently.
type Slot struct {
	semaphore *Semaphore
	holder    Holder
	parties   []party // that it counts against
	n         int
	begun     time.Time
}

// Acquire takes a slot, and waits for one as long as the bound allows. The caller must release it
// once when the work ends. It returns [ErrShare] if the holder uses, or waits for, its whole share
// already, [fault.ErrBusy] if there is no slot because of others, and the error of ctx if that ends
// first.
func (s *Semaphore) Acquire(ctx context.Context, h Holder) (*Slot, error) {
	return s.AcquireN(ctx, h, 1)
}

// AcquireN is like Acquire, but takes n slots at once. It never grants more than a share.
func (s *Semaphore) AcquireN(ctx context.Context, h Holder, n int) (*Slot, error) {
	slot := &Slot{semaphore: s, holder: h, parties: h.parties(), n: n}
	w, err := s.acquireOrQueue(h, slot.parties, n)
	slot.begun = time.Now()
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return slot, nil
	}
	late := time.NewTimer(s.bound.Wait)
	defer late.Stop()
	select {
	case <-w.granted:
		slot.begun = time.Now()
		return slot, nil
	case <-late.C:
	case <-ctx.Done():
	}
	if err := s.leaveQueue(ctx, w); err != nil {
		return nil, err
	}
	return slot, nil
}

// acquireOrQueue takes n slots, or else returns a place in the queue.
func (s *Semaphore) acquireOrQueue(h Holder, parties []party, n int) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone := s.alone(h, true)
	refusal := s.refusal(parties, n, alone)
	if refusal == nil {
		s.slots.add(parties, n)
		return nil, nil
	}
	if s.bound.Queue == 0 {
		return nil, s.countRefusal(refusal)
	}
	share := max(s.bound.Queue/shareDivisor, 1)
	if alone {
		share = s.bound.Queue - s.bound.Queue/shareDivisor
	}
	if full := s.waiting.refusal(parties, 1, s.bound.Queue, share, 0); full != nil {
		return nil, s.countRefusal(full)
	}
	w := &waiter{holder: h, n: n, parties: parties, granted: make(chan struct{})}
	s.waiting.add(parties, 1)
	s.queue = append(s.queue, w)
	return w, nil
}

// leaveQueue removes w from the queue and returns why it got no slot, or nil if it got one at the
// last moment.
func (s *Semaphore) leaveQueue(ctx context.Context, w *waiter) error {
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
		refusal := s.refusal(w.parties, w.n, s.alone(w.holder, false))
		if refusal == nil { // enough slots were released meanwhile
			s.slots.add(w.parties, w.n)
			return nil
		}
		return s.countRefusal(refusal)
	}
	return nil
}

// countRefusal counts a refusal and completes its error.
func (s *Semaphore) countRefusal(f *fault.Fault) error {
	if f == ErrShare {
		s.refused.Share++
	} else {
		s.refused.Full++
	}
	return f.With("bound", s.bound.Name).After(s.bound.Retry)
}

// refusal returns nil if a holder may have n slots now, and otherwise why not. alone says that the
// holder has no competition.
func (s *Semaphore) refusal(parties []party, n int, alone bool) *fault.Fault {
	share, perCaller := max(s.bound.Slots/shareDivisor, 1), s.bound.PerCaller
	switch {
	case alone:
		share, perCaller = s.bound.Slots-s.bound.Slots/shareDivisor, 0
	case s.bound.PerParty > 0:
		share = min(share, s.bound.PerParty)
	}
	return s.slots.refusal(parties, n, s.bound.Slots, share, perCaller)
}

// alone reports whether no unrelated holder has requested a slot recently. It is false if that makes no
// difference for the semaphore. requests says that the holder requests a slot now, which is recorded.
func (s *Semaphore) alone(h Holder, requests bool) bool {
	if s.bound.IdleAfter == 0 {
		return false
	}
	a := s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	if requests {
		if !a.lastRequests[0].holder.related(h) {
			a.lastRequests[1] = a.lastRequests[0]
		}
		a.lastRequests[0] = lastRequest{h, time.Now()}
	}
	return !slices.ContainsFunc(a.lastRequests[:], func(last lastRequest) bool {
		return !last.holder.related(h) && time.Since(last.at) < s.bound.IdleAfter
	})
}

// related reports whether two holders belong to one person or one workspace.
func (h Holder) related(to Holder) bool {
	return h.Person == to.Person && !h.Person.IsZero() || h.Workspace == to.Workspace && !h.Workspace.IsZero()
}

// Release frees the slot, after a cooldown if a party of the holder waits for more. A holder that is
// alone has none: it would only waste slots.
func (slot *Slot) Release() {
	s := slot.semaphore
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := slices.ContainsFunc(slot.parties, func(p party) bool { return s.waiting.byParty[p] > 0 })
	if cooldown := min(cooldownFactor*time.Since(slot.begun), s.bound.MaxCooldown); cooldown > 0 && waits && !s.alone(slot.holder, false) {
		time.AfterFunc(cooldown, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.free(slot.parties, slot.n)
		})
		return
	}
	s.free(slot.parties, slot.n)
}

// ReleaseWorkspace makes the slot count no longer against the workspace: what is left to do, such as
// sending an answer, takes as long as the caller likes.
func (slot *Slot) ReleaseWorkspace() {
	s := slot.semaphore
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range slot.parties {
		if p.role == asWorkspace {
			slot.parties = slices.Delete(slot.parties, i, i+1)
			s.slots.all += slot.n // the slot itself stays in use
			s.free([]party{p}, slot.n)
			return
		}
	}
}

// free frees n slots, and gives what is free to the first waiters that their shares allow.
func (s *Semaphore) free(parties []party, n int) {
	s.slots.add(parties, -n)
	for i := 0; i < len(s.queue); {
		w := s.queue[i]
		if s.refusal(w.parties, w.n, s.alone(w.holder, false)) != nil {
			i++
			continue
		}
		s.dequeue(i)
		s.slots.add(w.parties, w.n)
		close(w.granted)
	}
}

func (s *Semaphore) dequeue(i int) {
	s.waiting.add(s.queue[i].parties, -1)
	s.queue = append(s.queue[:i], s.queue[i+1:]...)
}

// Usage returns the number of slots in use, the length of the queue, and the refusals so far.
func (s *Semaphore) Usage() (held, waiting int, refused Refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots.all, s.waiting.all, s.refused
}

// Bound returns what the semaphore was made from.
func (s *Semaphore) Bound() Bound { return s.bound }
