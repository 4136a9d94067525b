package events_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestStages(t *testing.T) {
	for i, want := range []struct {
		stage  events.Stage
		label  string
		status events.RunStatus
	}{
		{events.StageQueued, "Queued", "queued"},
		{events.StageAnalyze, "Analyze", "analyzing"},
		{events.StagePlan, "Plan", "planning"},
		{events.StageImplementing, "Implementing", "coding"},
		{events.StageBuildFarm, "Build farm", "building"},
		{events.StageSelfReview, "Self-review", "reviewing"},
		{events.StageMerge, "Merge", "awaiting_approval"},
	} {
		require.Equal(t, want.stage, events.Stages()[i])
		require.Equal(t, want.stage, events.StageAt(i))
		require.Equal(t, i, want.stage.Index())
		require.Equal(t, want.label, want.stage.Label())
		require.Equal(t, want.status, want.stage.Status())
	}
	require.Len(t, events.Stages(), 7)
}

func TestUnknownStageHasNoIndex(t *testing.T) {
	for _, s := range []events.Stage{"", "Queued", "build farm", "done"} {
		require.Equal(t, -1, s.Index(), s)
		require.Equal(t, "Unknown", s.Label(), s)
		require.Equal(t, events.RunStatus("unknown"), s.Status(), s)
	}
	for _, i := range []int{-1, len(events.Stages())} {
		require.Equal(t, events.Stage(""), events.StageAt(i))
	}
}

func TestStagesCannotBeChangedByACaller(t *testing.T) {
	events.Stages()[0] = "changed"
	require.Equal(t, events.StageQueued, events.Stages()[0])
}

func TestStatusFamilies(t *testing.T) {
	active := []events.RunStatus{"queued", "analyzing", "planning", "coding", "building", "reviewing", "needs_input", "awaiting_approval",
		"merging", "unknown", "paused"}
	for _, s := range active {
		require.True(t, s.Active(), s)
	}
	for _, s := range []events.RunStatus{"merged", "rejected", "failed", "cancelled"} {
		require.False(t, s.Active(), s)
	}
}

func TestEventsOfRuns(t *testing.T) {
	ends := map[string]bool{"run.merged": true, "run.rejected": true, "run.failed": true, "run.cancelled": true}
	for _, kind := range events.Kinds() {
		e := zero(t, kind)
		_, ofRun := e.(interface{ IsRun() })
		require.Equal(t, strings.HasPrefix(kind, "run.") || strings.HasPrefix(kind, "decision."), ofRun, kind)
		require.Equal(t, ends[kind], events.EndsRun(e), kind)
	}
}
