package people

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
)

// States that only a newer build knows are rendered as Unknown.
func TestUnknownStatesOfNewerBuildAreShown(t *testing.T) {
	t.Parallel()
	m := NewMember(projections.Member{Role: "Auditor"}, events.ID{})
	require.Equal(t, []any{"Auditor", "Auditor", false}, []any{m.Role, m.DisplayRole, m.CanApproveLoops})
}
