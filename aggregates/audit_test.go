package aggregates_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

func TestOnlyAnOwnerExportsTheAuditLog(t *testing.T) {
	export := events.AuditExported{Format: "csv", UpTo: 7}
	w := &aggregates.Workspace{}
	w.Apply(events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, events.Actor{})
	for i, role := range []events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy} {
		user := events.ID{byte(i + 1)}
		w.Apply(events.MemberJoined{Member: events.ID{15: byte(i + 1)}, User: user, Email: "x", Role: role}, events.Actor{ID: user})
		list, err := w.Export(user, export)
		if role == events.Owner {
			require.NoError(t, err)
			require.Equal(t, []events.Event{export}, list)
			continue
		}
		require.ErrorIs(t, err, aggregates.ErrRoleRequired, role)
	}
	_, err := w.Export(events.ID{9}, export)
	require.ErrorIs(t, err, fault.ErrTenantNotFound)
}
