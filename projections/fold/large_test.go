//go:build !race

package fold_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

const largeKiB = 160 // of a specification

// submitLarge records n jobs with large specifications in a log.
func submitLarge(t *testing.T, w *world.World, workspace events.ID, n int) {
	t.Helper()
	spec := events.JobSpec{Name: "large", Steps: []events.JobStep{{Name: "large", Run: strings.Repeat("echo it; ", largeKiB<<10/9)}}}
	for range n {
		w.Record(t, world.System, workspace, world.NewID(), events.JobSubmitted{Spec: spec, ExpiresAt: w.Clock.Now().Add(time.Hour)})
	}
}

// Views are followed, rebuilt and compared correctly if a page holds only a few events.
func TestViewsFoldLargeEvents(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	const count = 150 // more than a block of the audit index
	large, small := world.NewID(), world.NewID()
	submitLarge(t, w, large, count)
	w.QueueRun(t, small)
	w.CaughtUp(t)
	page, err := store.Page{Logs: store.After(large, 0), Limit: count, Decode: store.Lenient}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	require.Less(t, len(page), count/5, "events of a page")

	for _, name := range []string{"audit", "job_specs", "jobs", "runs"} {
		live := world.Dump(t, w.DB, name)
		world.Rebuild(t, w.DB, world.View(t, name))
		require.Equal(t, live, world.Dump(t, w.DB, name), name)
	}
	for _, limit := range []int{20_000, 2000} {
		c, err := fold.CompareWithin(t.Context(), w.DB, projections.All(), large, limit, fold.NoPause)
		require.NoError(t, err)
		require.Empty(t, c.Differences)
		require.GreaterOrEqual(t, c.Rows, 2*count)
	}
}

// In the size of a comparison, a large row counts as several.
func TestComparisonSizeCountsLargeRows(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	workspace := world.NewID()
	submitLarge(t, w, workspace, 3)
	page, err := store.Page{Logs: store.After(workspace, 0), Limit: 3, Decode: store.Lenient}.Read(t.Context(), w.DB)
	require.NoError(t, err)
	for name, want := range map[string]int{"jobs": 3, "job_specs": 3 * largeKiB / 4} {
		c := world.View(t, name).Comparison(workspace, fold.AllKeys)
		for _, r := range page {
			require.NoError(t, c.Fold(r))
		}
		require.InDelta(t, want, c.Size(), 6, name)
	}
}
