package follow

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                          minRound,
		time.Millisecond:           minRound - time.Millisecond,
		5 * time.Millisecond:       15 * time.Millisecond,
		50 * time.Millisecond:      150 * time.Millisecond,
		time.Second:                maxPause,
		10 * time.Second:           maxPause,
		minRound:                   3 * minRound,
		minRound / 4:               3 * minRound / 4,
		minRound/4 + minRound/1000: 3 * (minRound/4 + minRound/1000),
	} {
		require.Equal(t, want, pause(took), took)
	}
}

// When a stuck log has been followed successfully, the others are retried at once, because the
// cause may be gone for them too.
func TestRecoveredLogEndsBackoffOfAll(t *testing.T) {
	synctest.Test(t, testRecoveredLog)
}

func testRecoveredLog(t *testing.T) {
	f := New(nil, "view", nil, slog.New(slog.DiscardHandler))
	var list []events.ID
	for range 3 {
		list = append(list, events.NewID(time.Now()))
		f.backOff(t.Context(), list[len(list)-1], errNothing)
	}
	require.Equal(t, 3, f.Stuck())
	require.True(t, f.backingOff(list[1]))
	f.clearBackoff([]events.ID{events.NewID(time.Now())})
	require.Equal(t, 3, f.Stuck(), "another one says nothing about these")
	f.clearBackoff(list[:1])
	require.Zero(t, f.Stuck())
	require.False(t, f.backingOff(list[1]))
	require.ElementsMatch(t, list[1:], f.takeGrown(), "they are tried again at once")
}

// The logs of a batch may together be batchWork events behind.
func TestBatchesOfLaggingLogs(t *testing.T) {
	for _, test := range []struct {
		behind []int64
		want   []int
	}{
		{behind: make([]int64, 300), want: []int{128, 128, 44}},
		{behind: []int64{5000, 1000, 999, 500, 500, 100}, want: []int{2, 1, 1, 1, 1}},
		{behind: append([]int64{3, 400}, slices.Repeat([]int64{100}, 20)...), want: []int{10, 10, 2}},
		{behind: slices.Repeat([]int64{1}, 129), want: []int{128, 1}},
	} {
		var list []laggingLog
		for _, n := range test.behind {
			list = append(list, laggingLog{events.NewID(time.Now()), n})
		}
		of := map[events.ID]int64{}
		for _, b := range list {
			of[b.Workspace] = b.Events
		}
		var sizes []int
		var order []int64
		for _, some := range batches(list) {
			sizes = append(sizes, len(some))
			for _, workspace := range some {
				order = append(order, of[workspace])
			}
		}
		require.Equal(t, test.want, sizes, test.behind)
		slices.Sort(test.behind)
		require.Equal(t, test.behind, order, "those that are least behind come first")
	}
}

func TestBackoffGrowsToALimit(t *testing.T) {
	f := New(nil, "view", nil, slog.New(slog.DiscardHandler))
	log := events.NewID(time.Now())
	for _, want := range []time.Duration{minBackoff, 2 * minBackoff, 4 * minBackoff, 8 * minBackoff, maxBackoff, maxBackoff} {
		f.backOff(t.Context(), log, errNothing)
		require.Equal(t, want, f.stuck[log].wait)
	}
}

var errNothing = errors.New("nothing works")
