// Package aggregates decides what may happen.
//
// An aggregate is the fold of one stream of events. Its methods look at that
// state and return the events that follow, or why none may. They change
// nothing, read no clock and know no database. Apply is the only thing that
// changes an aggregate, and it never refuses.
//
// # Runs and what they ask people
//
// A run is one stream, and its decisions are part of it: raised, then answered or
// voided. So an answer and what follows from it (an approval, another round, the end
// of the run) are one decision of one aggregate and one append. A run asks one thing
// at a time and enters no stage meanwhile. An approval names a commit; a push that
// moves the branch voids both the open decision and an approval that was given, so
// nothing is merged that nobody looked at. While a run is merging it takes neither
// pushes nor a cancellation.
//
// Who may answer depends on the kind of the decision and is read from the workspace's
// stream in the same append: a right that is taken away at the same moment either
// comes first and wins, or comes after.
//
// # Invitations
//
// Membership is one stream per workspace, because that one Owner always remains is one
// decision; invitations are in it, because accepting one is becoming a member. Whether
// one has expired is read from the clock when it matters, so no job has to run for
// that. Whoever sent an invitation last answers for it: with their right to send it,
// it is withdrawn in the same append.
package aggregates

import "svc/events"

// An Aggregate is a *T that takes in events and who caused each. The zero T is a
// stream without any.
type Aggregate[T any] interface {
	*T
	Apply(e events.Event, by events.ID)
}

func one(e events.Event) ([]events.Event, error) { return []events.Event{e}, nil }
