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

// A runner that comes and goes, each time with other labels, says so in the log only so often.
func TestARunnerThatChangesWithoutEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 2, 0)
	said := func() (n int) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where stream = $1`, runner).Scan(&n))
		return n
	}
	labels := func() (list []string) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select labels from runners where runner_id = $1`, runner).Scan(&list))
		return list
	}
	come := func(i int) *agent {
		a := dial(t, r, s.ws, runner)
		h := hello
		h.Labels = []string{fmt.Sprintf("disk=%d", i)}
		a.say(h, events.ID{}, 0, 0)
		a.next(wire.TypeWelcome)
		return a
	}
	for i := range 30 {
		a := come(i)
		if i%2 == 1 {
			a.say(wire.Goodbye{}, events.ID{}, 0, 0)
			require.Equal(t, websocket.CloseNormalClosure, a.closes())
		}
	}
	a := come(99)
	require.LessOrEqual(t, said(), 22)
	require.NotContains(t, labels(), "disk=99")

	s.submit(r) // it is there all the same, as the log knows it
	a.assigned()
	s.clock.move(11 * time.Minute)
	a.say(wire.Heartbeat{Seq: 1, Free: 1}, events.ID{}, 0, 0)
	require.Eventually(t, func() bool {
		for _, label := range labels() {
			if label == "disk=99" {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "what has changed is said later")
}

// A runner that connects anew each second is one that is connected. One that falls silent and
// comes back all day is said to go only now and then.
func TestARunnerOnABadLine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 2, 0)
	said := func() (n int) {
		require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where stream = $1`, runner).Scan(&n))
		return n
	}
	a := dial(t, r, s.ws, runner)
	a.greet()
	for seq := range int64(50) {
		s.clock.move(time.Second)
		a = dial(t, r, s.ws, runner)
		a.greet()
		a.say(wire.Heartbeat{Seq: seq + 1, Free: 2}, events.ID{}, 0, 0)
		a.next(wire.TypeHeartbeatAck)
		r.SweepOnce(t.Context())
	}
	require.Equal(t, 2, said(), "enrolled, and online")
	for range 200 { // in 200 minutes
		a.cut()
		s.clock.move(time.Minute)
		r.SweepOnce(t.Context())
		a = dial(t, r, s.ws, runner)
		a.greet()
	}
	require.LessOrEqual(t, said(), 70)
	s.submit(r)
	a.assigned() // it is there all the same

	a.cut()
	s.clock.move(20 * time.Minute)
	r.SweepOnce(t.Context())
	s.untilRunner(events.RunnerIsOffline, runner)
}
