package aggregates

import (
	"svc/events"
	"svc/fault"
)

// ErrNoAuthority says that a workspace has no such authority.
var ErrNoAuthority = fault.New(fault.NotFound, "authority_not_found", "There is no such authority.")

// An Authority is what signs the certificates of a workspace's runners: one key at a
// time, and those before it, whose certificates count until it is retired.
type Authority struct {
	signs  events.ID // the one that was created last
	active map[events.ID]bool
}

// Apply takes in one event.
func (a *Authority) Apply(e events.Event, _ events.ID) {
	switch e := e.(type) {
	case events.AuthorityCreated:
		if a.active == nil {
			a.active = map[events.ID]bool{}
		}
		a.signs, a.active[e.Authority] = e.Authority, true
	case events.AuthorityRetired:
		delete(a.active, e.Authority)
		if a.signs == e.Authority {
			a.signs = events.ID{}
		}
	}
}

// Signs returns the authority that signs; it is zero if there is none.
func (a *Authority) Signs() events.ID { return a.signs }

// Create makes an authority the one that signs, unless it is.
func (a *Authority) Create(e events.AuthorityCreated) ([]events.Event, error) {
	if a.signs == e.Authority || a.active[e.Authority] {
		return nil, nil
	}
	return one(e)
}

// Retire ends what an authority signed.
func (a *Authority) Retire(id events.ID, reason string) ([]events.Event, error) {
	if !a.active[id] {
		return nil, ErrNoAuthority
	}
	return one(events.AuthorityRetired{Authority: id, Reason: reason})
}
