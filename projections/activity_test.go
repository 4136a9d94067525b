package projections_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/projections"
	"svc/test/world"
)

// Activity equals a count over all events. An event at midnight belongs to the day that begins.
func TestActivityEqualsCountByDay(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	workspace, random, day := world.NewID(), rand.New(rand.NewPCG(3, 4)), 24*time.Hour
	from := world.Epoch.Truncate(day)
	at := []time.Time{from.Add(-time.Microsecond), from, from.Add(2 * day).Add(-time.Microsecond), from.Add(2 * day), from.Add(9 * day)}
	for range 60 {
		at = append(at, from.Add(time.Duration(random.Int64N(int64(9*day)))-day).Truncate(time.Microsecond))
	}
	slices.SortFunc(at, time.Time.Compare)
	want := make([]int64, 7)
	var before int64
	for _, moment := range at {
		_, err := w.Log.Append(t.Context(), &events.Commit{
			Workspace: workspace, At: moment, Envelope: events.Envelope{Actor: world.System, Origin: events.FromSystem},
			Writes: []events.Write{{Stream: world.NewID(), Events: []events.Event{events.RunCostRecorded{Cents: 1}}}},
		})
		require.NoError(t, err)
		if moment.Before(from) {
			before++
		}
		for i := range want {
			if moment.Before(from.Add(time.Duration(i+1) * day)) {
				want[i]++
			}
		}
	}
	a, err := projections.History{DB: w.DB}.Activity(t.Context(), workspace, from, len(want))
	require.NoError(t, err)
	require.Equal(t, projections.Activity{Head: int64(len(at)), Before: before, UpTo: want}, a)

	a, err = projections.History{DB: w.DB}.Activity(t.Context(), world.NewID(), from, 2)
	require.NoError(t, err)
	require.Equal(t, projections.Activity{UpTo: []int64{0, 0}}, a)
}
