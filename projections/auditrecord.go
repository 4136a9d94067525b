package projections

import "svc/events"

// A Target is what an event happened to.
type Target = events.Target

// A Change is one field that an event changed.
type Change = events.Change
