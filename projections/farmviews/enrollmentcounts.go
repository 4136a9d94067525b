package farmviews

import (
	"svc/events"
	"svc/projections/fold"
)

// An enrollmentCount is the number of enrollments that a workspace ever had; none leaves the list.
// It is a view of its own so that counting costs the same however long the list is.
type enrollmentCount struct {
	Workspace   events.ID `db:"workspace_id"`
	Enrollments int       `db:"enrollments"`
}

var enrollmentCounts = &fold.Table[events.ID, enrollmentCount]{
	View: "enrollment_counts", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true,
	Kinds: []string{"enrollment.minted"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(events.EnrollmentMinted); ok {
			return []events.ID{r.Workspace}
		}
		return nil
	},
	Apply: func(workspace events.ID, row *enrollmentCount, _ events.Record) *enrollmentCount {
		after := enrollmentCount{Workspace: workspace}
		if row != nil {
			after = *row
		}
		after.Enrollments++
		return &after
	},
}
