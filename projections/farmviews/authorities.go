package farmviews

import (
	"time"

	"svc/events"
	"svc/projections/fold"
)

type authorityRow struct {
	Workspace   events.ID `db:"workspace_id"`
	ID          events.ID `db:"authority_id"`
	Certificate string    `db:"certificate"`
	NotAfter    time.Time `db:"not_after"`
	Retired     bool      `db:"retired"`
}

// authorities is inline because a runner's certificate is checked against it.
var authorities = &fold.Table[events.ID, authorityRow]{
	View: "authorities", Updated: fold.Inline, Key: "authority_id",
	Kinds: []string{"authority"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.AuthorityCreated:
			return []events.ID{e.Authority}
		case events.AuthorityRetired:
			return []events.ID{e.Authority}
		}
		return nil
	},
	Apply: func(id events.ID, a *authorityRow, r events.Record) *authorityRow {
		if e, ok := r.Event.(events.AuthorityCreated); ok {
			return &authorityRow{Workspace: r.Workspace, ID: id, Certificate: e.Certificate, NotAfter: e.NotAfter}
		}
		after := *a
		after.Retired = true
		return &after
	},
}
