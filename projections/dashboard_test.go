package projections_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/test/world"
)

// Dashboard positions include the head of the log, because the farm's data changes with the events,
// before the followed views.
func TestDashboardPositionsIncludeTheHead(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, none := world.NewID(), world.NewID()
	queueRun(t, w, workspace, web, 1, events.RunStageEntered{Stage: events.StagePlan, Attempt: 1})
	found, err := projections.Dashboard{DB: w.DB}.Positions(t.Context(), []events.ID{workspace, none})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Contains(t, found[workspace], fmt.Sprintf("%d at ", 2+2*len(projections.Followed())),
		"the log and all views have come to their second event")
}
