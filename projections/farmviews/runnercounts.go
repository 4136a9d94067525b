package farmviews

import (
	"svc/events"
	"svc/projections/fold"
)

// A runnerCount is the number of machines that ever enrolled in a workspace; ended ones stay in the
// list. It is a view of its own so that counting costs the same however long the list is.
type runnerCount struct {
	Workspace events.ID `db:"workspace_id"`
	Runners   int       `db:"runners"`
}

var runnerCounts = &fold.Table[events.ID, runnerCount]{
	View: "runner_counts", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true,
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
