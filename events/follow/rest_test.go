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
		time.Second:            lull,
		10 * time.Second:       lull,
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
	require.Contains(t, f.moved(), events.ID{}, "they are looked for at once")
}

func TestARestGrowsToALimit(t *testing.T) {
	f := New(nil, "view", nil, slog.New(slog.DiscardHandler))
	log := events.NewID(time.Now())
	for _, want := range []time.Duration{rest, 2 * rest, 4 * rest, 8 * rest, restMost, restMost} {
		f.leave(t.Context(), log, errNothing)
		require.Equal(t, want, f.stuck[log].rest)
	}
}

var errNothing = errors.New("nothing works")
