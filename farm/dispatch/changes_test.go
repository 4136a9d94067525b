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
	s.clock.move(5 * time.Minute)
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
