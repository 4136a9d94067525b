package follow

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      gather,
		time.Millisecond:       gather - time.Millisecond,
		5 * time.Millisecond:   15 * time.Millisecond,
		50 * time.Millisecond:  150 * time.Millisecond,
		time.Second:            maxPause,
		10 * time.Second:       maxPause,
		gather:                 3 * gather,
		gather / 4:             3 * gather / 4,
		gather/4 + gather/1000: 3 * (gather/4 + gather/1000),
	} {
		require.Equal(t, want, pause(took), took)
	}
}

// When a log can be followed again, whatever held it up may be over for all: none
// of the others waits for the end of its own rest.
func TestOneThatIsFollowedAgainEndsTheRestOfAll(t *testing.T) {
	synctest.Test(t, testOneThatIsFollowedAgain)
}

func testOneThatIsFollowedAgain(t *testing.T) {
	f := New(nil, "view", nil, slog.New(slog.DiscardHandler))
	var list []events.ID
	for range 3 {
		list = append(list, events.NewID(time.Now()))
		f.leave(t.Context(), list[len(list)-1], errNothing)
	}
	require.Equal(t, 3, f.Stuck())
	require.True(t, f.rests(list[1]))
	f.release([]events.ID{events.NewID(time.Now())})
	require.Equal(t, 3, f.Stuck(), "another one says nothing about these")
	f.release(list[:1])
	require.Zero(t, f.Stuck())
	require.False(t, f.rests(list[1]))
	require.ElementsMatch(t, list[1:], f.moved(), "they are tried again at once")
}

func TestARestGrowsToALimit(t *testing.T) {
	f := New(nil, "view", nil, slog.New(slog.DiscardHandler))
	log := events.NewID(time.Now())
	for _, want := range []time.Duration{minBackoff, 2 * minBackoff, 4 * minBackoff, 8 * minBackoff, maxBackoff, maxBackoff} {
		f.leave(t.Context(), log, errNothing)
		require.Equal(t, want, f.stuck[log].wait)
	}
}

var errNothing = errors.New("nothing works")
