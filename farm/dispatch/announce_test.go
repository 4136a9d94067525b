package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// The runner connects and disconnects, each time with other labels.
func TestAnnouncementsAreRateLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 2, 0)
	countEvents := func() (n int) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where stream = $1`, runner).Scan(&n))
		return n
	}
	labels := func() (list []string) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select labels from runners where runner_id = $1`, runner).Scan(&list))
		return list
	}
	connect := func(i int) *agent {
		a := dial(t, r, s.ws, runner)
		h := hello
		h.Labels = []string{fmt.Sprintf("disk=%d", i)}
		a.send(h, events.ID{}, 0, 0)
		a.next(wire.TypeWelcome)
		return a
	}
	for i := range 30 {
		a := connect(i)
		if i%2 == 1 {
			a.send(wire.Goodbye{}, events.ID{}, 0, 0)
			require.Equal(t, websocket.CloseNormalClosure, a.closes())
		}
	}
	a := connect(99)
	require.LessOrEqual(t, countEvents(), 22)
	require.NotContains(t, labels(), "machine:disk=99")

	s.submit(r) // connected all the same, with what the log has
	a.assigned()
	s.clock.advance(11 * time.Minute)
	a.send(wire.Heartbeat{Seq: 1, Free: 1}, events.ID{}, 0, 0)
	require.Eventually(t, func() bool {
		for _, label := range labels() {
			if label == "machine:disk=99" {
				return true
			}
		}
		return false
	}, waitLimit, 10*time.Millisecond, "what has changed is said later")
}

// A runner that reconnects every second counts as connected. One that falls silent and comes back
// all day is marked offline only now and then.
func TestFlappingRunnerIsAnnouncedRarely(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 2, 0)
	countEvents := func() (n int) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where stream = $1`, runner).Scan(&n))
		return n
	}
	a := dial(t, r, s.ws, runner)
	a.greet()
	for seq := range int64(50) {
		s.clock.advance(time.Second)
		a = dial(t, r, s.ws, runner)
		a.greet()
		a.send(wire.Heartbeat{Seq: seq + 1, Free: 2}, events.ID{}, 0, 0)
		a.next(wire.TypeHeartbeatAck)
		r.SweepOnce(t.Context())
	}
	require.Equal(t, 2, countEvents(), "enrolled, and online")
	for range 200 { // in 200 minutes
		a.cut()
		s.clock.advance(time.Minute)
		r.SweepOnce(t.Context())
		a = dial(t, r, s.ws, runner)
		a.greet()
	}
	require.LessOrEqual(t, countEvents(), 70)
	s.submit(r)
	a.assigned() // connected all the same

	a.cut()
	s.clock.advance(20 * time.Minute)
	r.SweepOnce(t.Context())
	s.waitForRunner(events.RunnerStateOffline, runner)
}
