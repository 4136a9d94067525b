package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// A memberCount is the number of members with a role. It is a view of its own so that counting
// costs the same however long the list is.
type memberCount struct {
	Workspace events.ID   `db:"workspace_id"`
	Role      events.Role `db:"role"`
	Members   int         `db:"members"` // at least one
}

var memberCounts = &fold.Table[events.Role, memberCount]{
	View: "member_counts", Updated: fold.Inline, Key: "role",
	Kinds: []string{"member"},
	Keys: func(r events.Record) []events.Role {
		switch e := r.Event.(type) {
		case events.MemberJoined:
			return []events.Role{e.Role}
		case events.MemberRoleChanged:
			if e.From != e.To {
				return []events.Role{e.From, e.To}
			}
		case events.MemberLeft:
			return []events.Role{e.Role}
		case events.MemberRemoved:
			return []events.Role{e.Role}
		}
		return nil
	},
	Apply: func(role events.Role, row *memberCount, r events.Record) *memberCount {
		after := memberCount{Workspace: r.Workspace, Role: role}
		if row != nil {
			after = *row
		}
		switch e := r.Event.(type) {
		case events.MemberJoined:
			after.Members++
		case events.MemberRoleChanged:
			if role == e.To {
				after.Members++
			} else {
				after.Members--
			}
		default:
			after.Members--
		}
		if after.Members == 0 {
			return nil
		}
		return &after
	},
}
