package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// A runner may work until LeaseTime after its newest acknowledged heartbeat, also if that waited for the
// database together with older ones.
func TestLeaseIsRenewedFromNewestHeartbeat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	beats := map[events.ID]func(){}
	for _, name := range []string{"one", "two"} {
		a := dial(t, r, s.ws, s.enrol(r, name, 1, 0))
		a.greet()
		s.submit(r)
		job, epoch, _ := a.assigned()
		a.send(wire.Accept{}, job, epoch, 0)
		s.waitForState(events.JobStateLeased, job)
		beats[job] = func() {
			a.send(wire.Heartbeat{Held: []wire.Held{{Job: job.String(), Epoch: epoch}}}, events.ID{}, 0, 0)
		}
	}
	storing := s.hold("runner_presence", "exclusive mode")
	for _, beat := range beats {
		beat() // the writer waits for the lock with this one
		break
	}
	storing.awaitWaiting()
	newest := map[events.ID]time.Time{}
	for job, beat := range beats {
		s.clock.advance(7 * time.Second)
		newest[job] = s.clock.now().Truncate(time.Microsecond)
		queued := r.QueuedHeartbeats()
		beat()
		require.Eventually(t, func() bool { return r.QueuedHeartbeats() > queued }, waitLimit, time.Millisecond)
	}
	storing.release()
	for job, at := range newest {
		require.Eventually(t, func() bool {
			var renewed time.Time
			require.NoError(t, s.db.QueryRow(t.Context(), `select renewed_at from job_leases where job_id = $1`, job).Scan(&renewed))
			return !renewed.Before(at)
		}, waitLimit/2, time.Millisecond)
	}
}
