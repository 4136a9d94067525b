package farm

import (
	"svc/events"
	"svc/fault"
)

// ErrNoAuthority means that a workspace has no such authority.
var ErrNoAuthority = fault.New(fault.NotFound, "authority_not_found", "There is no such authority.")

// An Authority is the fold of a workspace's certificate authorities. One key signs at a
// time; certificates of earlier keys stay valid until those are retired.
type Authority struct {
	current events.ID // the newest, unless it was retired
	active  map[events.ID]bool
}

// Apply adds one event.
func (a *Authority) Apply(e events.Event, _ events.Actor) {
	switch e := e.(type) {
	case events.AuthorityCreated:
		if a.active == nil {
			a.active = map[events.ID]bool{}
		}
		a.current, a.active[e.Authority] = e.Authority, true
	case events.AuthorityRetired:
		delete(a.active, e.Authority)
		if a.current == e.Authority {
			a.current = events.ID{}
		}
	}
}

// Current returns the authority that signs new certificates, or the zero ID if there is none.
func (a *Authority) Current() events.ID { return a.current }

// Create adds an authority and makes it the signing one. It returns no event if it exists.
func (a *Authority) Create(e events.AuthorityCreated) ([]events.Event, error) {
	if a.current == e.Authority || a.active[e.Authority] {
		return nil, nil
	}
	return oneEvent(e)
}

// Retire makes all certificates of an authority invalid.
func (a *Authority) Retire(id events.ID, reason string) ([]events.Event, error) {
	if !a.active[id] {
		return nil, ErrNoAuthority
	}
	return oneEvent(events.AuthorityRetired{Authority: id, Reason: reason})
}
