// Package aggregates decides what may happen.
//
// An aggregate is the fold of one stream of events. Its methods look at that
// state and return the events that follow, or why none may. They change
// nothing, read no clock and know no database. Apply is the only thing that
// changes an aggregate, and it never refuses.
package aggregates

import "svc/events"

// An Aggregate is a *T that takes in events and who caused each. The zero T is a
// stream without any.
type Aggregate[T any] interface {
	*T
	Apply(e events.Event, by events.ID)
}

func one(e events.Event) ([]events.Event, error) { return []events.Event{e}, nil }
