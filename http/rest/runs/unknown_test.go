package runs

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/door"
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

	shown := newRunDetail(r)
	require.Equal(t, "Unknown", shown.Run.StageLabel)
	require.Equal(t, events.RunStatus("unknown"), shown.Run.Status)
	var labels []string
	for _, s := range shown.Timeline.Stages[len(events.Stages())-1:] {
		labels = append(labels, s.Label)
	}
	require.Equal(t, []string{"Merge", "security_scan", "Unknown"}, labels)

	item := newInboxItem(runviews.Waiting{Decision: runviews.Decision{Kind: "license_review"}, ByRun: r},
		&door.Caller{Person: &door.Person{Role: "Auditor"}}, nil)
	text, err := json.Marshal(item)
	require.NoError(t, err)
	require.Contains(t, string(text), `"kindId":"license_review"`)
	require.Contains(t, string(text), `"actions":[]`)
}
