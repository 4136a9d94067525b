// Package runviews contains the views of runs: their lists and numbers, the decisions that they wait for, and how they turned out.
package runviews

import "svc/projections/fold"

// All returns every view of the package, in the order in which they are rebuilt.
func All() []fold.View {
	return []fold.View{runs, runCounts, decisions, outcomes}
}
