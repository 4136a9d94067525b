package aggregates

import "svc/events"

// An Issue is the fold of what the runs of an issue cost.
type Issue struct {
	cents   int64
	unknown bool
}

// Apply adds one event.
func (i *Issue) Apply(e events.Event, _ events.Actor) {
	switch e := e.(type) {
	case events.IssueCostRecorded:
		i.cents += e.Cents
		i.unknown = i.unknown || e.Unknown
	}
}

// Costs returns what the runs of the issue cost so far. unknown means that nobody knows a part of it.
func (i *Issue) Costs() (cents int64, unknown bool) { return i.cents, i.unknown }

// Spent reports whether the runs of the issue have used up a budget; 0 is none. All of it counts as used if nobody knows
// what a part of the work cost.
func (i *Issue) Spent(budget int64) bool { return budget > 0 && (i.unknown || i.cents >= budget) }
