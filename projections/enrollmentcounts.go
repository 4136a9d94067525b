package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// An enrollmentCount is how many enrolments of a workspace there have been: none leaves the
// list. It is kept by a view of its own, so that the length of the list costs the same however
// long it is.
type enrollmentCount struct {
	Workspace   events.ID `db:"workspace_id"`
	Enrollments int       `db:"enrollments"`
}

var enrollmentCounts = &fold.Table[events.ID, enrollmentCount]{
	View: "enrollment_counts", KeptBy: fold.Inline, Key: "workspace_id", Alone: true,
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
