package rest

import (
	"sync"

	"svc/events"
	"svc/fault"
)

// places bound what goes on at once in a process, and how much of that one
// caller or one workspace may have: nobody takes all of it.
type places struct {
	most, each int
	full       error // to who has each already

	mu  sync.Mutex
	all int
	of  map[events.ID]int
}

func newPlaces(most, each int, full error) *places {
	return &places{most: most, each: each, full: full, of: map[events.ID]int{}}
}

// take gives a place, which has to be given back.
func (p *places) take(who events.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[who] == p.each:
		return p.full
	case p.all == p.most:
		return fault.ErrBusy
	}
	p.all++
	p.of[who]++
	return nil
}

func (p *places) giveBack(who events.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[who]--; p.of[who] == 0 {
		delete(p.of, who)
	}
}
