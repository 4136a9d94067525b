package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
)

// An export is recorded with its parameters, and a refused one as a denial.
func TestExportsAreRecorded(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	filter := events.AuditFilter{Action: "member.*", Q: "zoë"}
	before := m.head(t, m.id)
	done, err := m.ExportAudit(t.Context(), commands.ExportAudit{Meta: m.owner.in(m.id), Format: "csv", Filter: filter, UpTo: before})
	require.NoError(t, err)
	require.Equal(t, before+1, done.Position)
	m.requireAdded(t, m.id, before, events.AuditExported{Format: "csv", Filter: filter, UpTo: before})

	for range 2 { // a denial is recorded once a minute
		_, err = m.ExportAudit(t.Context(), commands.ExportAudit{Meta: m.maintainer.in(m.id), Format: "csv", UpTo: before})
		require.ErrorIs(t, err, aggregates.ErrRoleRequired)
	}
	require.Equal(t, []events.CommandDenied{{Action: "audit.exported", Target: m.id, Code: "role_required"}}, m.denials(t, m.id, before+1))
}
