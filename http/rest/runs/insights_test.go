package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"svc/http/rest/schema"
	"svc/projections/runviews"
)

func TestPercentIsRoundedHalfUp(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		want        float64
	}{
		{0, 7, 0}, {7, 7, 100}, {2, 3, 66.7}, {1, 3, 33.3}, {1, 8, 12.5}, {1, 16, 6.3}, {1, 400, 0.3}, {1, 2000, 0.1}, {1, 2001, 0},
		{1999, 2000, 100},
	} {
		value, sample := percent(c.part, c.whole)
		require.InDelta(t, c.want, *value, 0, "%d of %d", c.part, c.whole)
		require.Equal(t, c.whole, sample)
	}
	value, sample := percent(0, 0)
	require.Nil(t, value, "nothing is not zero")
	require.Zero(t, sample)
}

func TestCostIsRoundedHalfUp(t *testing.T) {
	for cents, want := range map[int64]float64{0: 0, 1: 1, 2: 1, 3: 2, 5: 3} {
		value, _ := costPerMergedPR(runviews.Count{Merged: 2, CostCents: cents})
		require.InDelta(t, want, *value, 0, "%d cents", cents)
	}
	value, _ := costPerMergedPR(runviews.Count{CostCents: 100})
	require.Nil(t, value)
}

func TestSampleOfInterventionsIsRuns(t *testing.T) {
	value, sample := humanInterventions(runviews.Count{Runs: 9, Interventions: 7, Helped: 3})
	require.InDelta(t, 7, *value, 0)
	require.Equal(t, 3, sample)
}

// Each day has the value of the corresponding day of the preceding period.
func TestSeriesHasEachDayOfWindow(t *testing.T) {
	r := runviews.Report{
		ByDay:      []runviews.Count{{Runs: 2, Merged: 1, Autonomous: 1}, {}},
		PriorByDay: []runviews.Count{{}, {Runs: 4, Merged: 1, Autonomous: 1, Interventions: 3}},
	}
	out := newInsights(r, time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC)).Body
	require.Equal(t, schema.Dates{From: "2026-11-30", To: "2026-12-01"}, out.Window)
	require.Equal(t, schema.Dates{From: "2026-11-28", To: "2026-11-29"}, out.Prior)
	require.Equal(t, []dayValue{{"2026-11-30", new(50.0), nil}, {"2026-12-01", nil, new(25.0)}}, out.KPIs[0].Series)
	require.Equal(t, []dayValue{{"2026-11-30", new(0.0), new(0.0)}, {"2026-12-01", new(0.0), new(3.0)}}, out.KPIs[4].Series)
}

// A failed run never improves a metric.
func TestFailedRunNeverImprovesMetrics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c runviews.Count
		c.Runs = rapid.IntRange(1, 1000).Draw(t, "runs")
		c.Merged = rapid.IntRange(0, c.Runs).Draw(t, "merged")
		c.Autonomous = rapid.IntRange(0, c.Merged).Draw(t, "autonomous")
		c.Untouched = rapid.IntRange(0, c.Merged).Draw(t, "untouched")
		c.CostCents = rapid.Int64Range(0, 1_000_000).Draw(t, "cents")
		more := c
		more.Runs++
		more.CostCents += rapid.Int64Range(0, 1000).Draw(t, "cents of the failed one")

		for name, rate := range map[string]func(runviews.Count) (*float64, int){"autonomous": autonomousMergeRate,
			"untouched": mergedUntouchedRate} {
			before, _ := rate(c)
			after, _ := rate(more)
			require.Equal(t, before == nil, after == nil, name)
			if before != nil {
				require.LessOrEqual(t, *after, *before, name)
				require.LessOrEqual(t, *before, 100.0, name)
			}
		}
		before, _ := costPerMergedPR(c)
		after, _ := costPerMergedPR(more)
		if before != nil {
			require.GreaterOrEqual(t, *after, *before)
		}
	})
}
