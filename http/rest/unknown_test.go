package rest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/runs"
	"svc/projections"
	"svc/projections/runviews"
)

// States that only a newer build knows are rendered as Unknown.
func TestUnknownStatesOfNewerBuildAreShown(t *testing.T) {
	t.Parallel()
	r := runviews.Run{Stage: len(events.Stages()), Status: events.RunStatusUnknown}
	for range events.Stages() {
		r.Detail.Stages = append(r.Detail.Stages, runviews.RunStage{Status: "pending"})
	}
	r.Detail.Stages = append(r.Detail.Stages, runviews.RunStage{Name: "security_scan", Status: "active"},
		runviews.RunStage{Status: "pending"})

	stages := runviews.Stages{List: []runviews.StageCount{{Runs: 1}, {}, {}, {}, {}, {}, {}, {Runs: 2}}}
	d := newDashboard(projections.Overview{Stages: stages, Recent: []runviews.Run{r}}, system{}, time.Now())
	require.Equal(t, 3, d.Runs.Active)
	require.Equal(t, runs.StageCount{Label: "Unknown", Count: 2}, d.Runs.ByStage[len(events.Stages())])
}
