package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// A runnerCount is how many machines have ever been runners of a workspace: those that are over
// stay in the list. It is kept by a view of its own, so that the length of the list costs the
// same however long it is.
type runnerCount struct {
	Workspace events.ID `db:"workspace_id"`
	Runners   int       `db:"runners"`
}

var runnerCounts = &fold.Table[events.ID, runnerCount]{
	View: "runner_counts", KeptBy: fold.Inline, Key: "workspace_id", Alone: true,
	Kinds: []string{"runner.enrolled"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(events.RunnerEnrolled); ok {
			return []events.ID{r.Workspace}
		}
		return nil
	},
	Apply: func(workspace events.ID, row *runnerCount, _ events.Record) *runnerCount {
		after := runnerCount{Workspace: workspace}
		if row != nil {
			after = *row
		}
		after.Runners++
		return &after
	},
}
