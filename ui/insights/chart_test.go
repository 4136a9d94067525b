package insights

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

func kpi(unit client.KpiUnit, values ...float64) client.Kpi {
	k := client.Kpi{Unit: unit, Key: client.CycleTime}
	for _, value := range values {
		d := client.DayValue{Date: "2026-11-01"}
		if value >= 0 {
			d.Value = &value
		}
		k.Series = append(k.Series, d)
	}
	return k
}

func TestScaleIsRoundAndAboveEachValue(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{0: 4, 1: 4, 5: 6, 11: 20, 93: 100, 101: 200, 100_000: 100_000} {
		require.InDelta(t, want, scaleMax(kpi(client.Count, value)), 0, value)
	}
	require.InDelta(t, 100, scaleMax(kpi(client.Pct, 3)), 0)
	require.InDelta(t, 4*60_000, scaleMax(kpi(client.DurationMs, 0)), 0)
	require.InDelta(t, 80*60_000, scaleMax(kpi(client.DurationMs, 75*60_000)), 0)
}

// A day without a value is a gap, and a day between two of them a dot. A series without a value has no line.
func TestLinesHaveGapsAtDaysWithoutAValue(t *testing.T) {
	t.Parallel()
	gap := kpi(client.Pct, 1, 2, -1, 4, -1, 6, 7)
	line := chartFrame.line(gap, currentValue)
	require.Equal(t, 3, strings.Count(line, "M"))
	require.Equal(t, 2, strings.Count(line, "L"))
	require.Equal(t, 1, strings.Count(line, "h0"), "the day alone")
	require.Equal(t, 3, strings.Count(chartFrame.area(gap, currentValue), "Z"))
	require.Empty(t, chartFrame.line(kpi(client.Count, -1, -1), currentValue))
	require.Empty(t, chartFrame.area(kpi(client.Count, -1), currentValue))
	require.NotContains(t, chartFrame.area(kpi(client.Count, 2), currentValue), "NaN")
	require.Len(t, chartFrame.ticks(kpi(client.Count, 4)), 5)
}

// A count has a bar for each day on which something was counted.
func TestCountsAreBars(t *testing.T) {
	t.Parallel()
	k := kpi(client.Count, 1, 0, 4)
	require.Equal(t, 2, strings.Count(chartFrame.bars(k, currentValue, false), "Z"))
	var out strings.Builder
	require.NoError(t, series(chartFrame, k).Render(t.Context(), &out))
	require.Contains(t, out.String(), `class="bars"`)
	require.NotContains(t, out.String(), `class="line"`)
}

// What people read of how a figure is calculated has no words of programs.
func TestMethodologyIsInWords(t *testing.T) {
	t.Parallel()
	for _, unit := range []client.KpiUnit{client.Pct, client.Cents, client.DurationMs, client.Count} {
		k := kpi(unit, 1)
		k.Methodology = client.Methodology{Empty: "null", Denominator: "None: it is a count.", Excludes: []string{"approvals"}}
		var out strings.Builder
		require.NoError(t, methodology(k).Render(t.Context(), &out))
		for _, word := range []string{"null", "Numerator", "Denominator"} {
			require.NotContains(t, out.String(), word)
		}
		require.Equal(t, unit != client.Count, strings.Contains(out.String(), "None: it is a count."))
		require.Contains(t, out.String(), "approvals")
	}
}

func TestHasData(t *testing.T) {
	t.Parallel()
	k := kpi(client.Count, 0, 0)
	require.False(t, hasData(k), "nothing was counted")
	k.PriorSample = 1
	require.True(t, hasData(k))
	k.Series = kpi(client.DurationMs, -1).Series
	require.False(t, hasData(k), "no day has a value")
}

func TestChangeOf(t *testing.T) {
	t.Parallel()
	now, before := 64.0, 58.0
	c, ok := changeOf(client.Kpi{Key: client.AutonomousMergeRate, Unit: client.Pct, Value: &now, Prior: &before})
	require.True(t, ok)
	require.Equal(t, change{"arrow-up-right", "6 pts", "good"}, c)
	c, ok = changeOf(client.Kpi{Key: client.CostPerMergedPr, Unit: client.Cents, Value: &now, Prior: &before})
	require.True(t, ok)
	require.Equal(t, change{"arrow-up-right", "$0.06", "bad"}, c)
	_, ok = changeOf(client.Kpi{Value: &now})
	require.False(t, ok)
}
