package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
	"svc/projections/farmviews"
)

// A runner that declines everything, or does not answer, is given fewer and fewer jobs. Once it
// accepts a job it is given as many as before.
func TestDecliningRunnerBacksOff(t *testing.T) {
	for name, c := range map[string]struct {
		answers bool
		each    time.Duration // between two heartbeats
		most    int           // most jobs assigned in an hour
	}{
		"it declines": {true, 10 * time.Second, 20}, "it does not answer": {false, 21 * time.Second, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 5 * time.Millisecond })
			runner := s.enrol(r, "builder", 4, 0)
			a := dial(t, r, s.ws, runner)
			wide := hello
			wide.Capacity = 4
			a.send(wide, events.ID{}, 0, 0)
			var last events.ID
			for range 100 {
				last = s.submit(r, func(j *events.JobSpec) { j.Timeouts.QueueSeconds = 86400 })
			}
			given := func() (n int) {
				require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where kind = 'job.leased'`).Scan(&n))
				return n
			}
			open := func() (n int) {
				require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from jobs where state = 'leased'`).Scan(&n))
				return n
			}
			known := func() farmviews.Runner {
				t.Helper()
				found, _, err := farmviews.Runners{DB: s.db}.Get(t.Context(), s.ws, runner)
				require.NoError(t, err)
				return found
			}
			beat := func(seq int64) {
				if seq%30 == 29 { // reconnecting changes nothing
					a = dial(t, r, s.ws, runner)
					a.send(wide, events.ID{}, 0, 0)
					a.next(wire.TypeWelcome)
				}
				s.clock.advance(c.each)
				a.send(wire.Heartbeat{Seq: seq + 1, Free: 4}, events.ID{}, 0, 0)
				a.declineUntilAcked(c.answers, open)
				r.SweepOnce(t.Context())
			}
			seq, hour := int64(0), int64(time.Hour/c.each)
			for ; seq < hour; seq++ {
				beat(seq)
			}
			require.Positive(t, given())
			require.LessOrEqual(t, given(), c.most)

			// While the machine is busy, the dispatcher assigns less in an hour of this clock.
			for ; known().Declined <= 3 && seq < 10*hour; seq++ {
				beat(seq)
			}
			require.Greater(t, known().Declined, 3)
			if !c.answers {
				require.Equal(t, "no_answer", known().DeclineReason)
			}
			job, _, err := farmviews.Jobs{DB: s.db}.Get(t.Context(), s.ws, last)
			require.NoError(t, err)
			waits, err := farmviews.Jobs{DB: s.db}.Waits(t.Context(), s.ws, []farmviews.Job{job}, known().RestsUntil.Add(-time.Second))
			require.NoError(t, err)
			require.Equal(t, farmviews.WaitsForRest, waits.Reason(job))

			a = dial(t, r, s.ws, runner) // a job that it did not answer is sent again
			a.send(wide, events.ID{}, 0, 0)
			a.next(wire.TypeWelcome)
			s.clock.advance(11 * time.Minute)
			first, epoch, _ := a.assigned()
			a.send(wire.Accept{}, first, epoch, 0)
			for range 3 {
				a.assigned()
			}
		})
	}
}

// A runner that ignored an assignment has its slot back after the time to accept it.
func TestUnansweredAssignmentFreesSlot(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) { c.RefreshEvery = 5 * time.Millisecond })
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	first := s.submit(r)
	a.assigned()
	s.clock.advance(21 * time.Second)
	r.SweepOnce(t.Context())
	s.waitForState(events.JobStateQueued, first)
	second := s.submit(r)
	job, _, _ := a.assigned()
	require.Equal(t, second, job)
}

// declineUntilAcked declines the assigned jobs, if it answers at all, until its heartbeat is
// acknowledged and no assignment is open.
func (a *agent) declineUntilAcked(answers bool, open func() int) {
	a.t.Helper()
	decline := func(e wire.Envelope) {
		job, err := events.ParseID(e.Job)
		require.NoError(a.t, err)
		if answers {
			a.send(wire.Decline{Reason: "disk_full"}, job, e.Epoch, 0)
		}
	}
	for _, e := range a.assignments {
		decline(e)
	}
	a.assignments = nil
	look, limit := time.NewTicker(2*time.Millisecond), time.After(waitLimit)
	defer look.Stop()
	for acked := false; !acked || answers && open() > 0; {
		select {
		case e, ok := <-a.got:
			require.True(a.t, ok, "the connection is closed")
			switch e.Type {
			case wire.TypeHeartbeatAck:
				acked = true
			case wire.TypeAssign:
				decline(e)
			}
		case <-look.C:
		case <-limit:
			require.FailNow(a.t, "no heartbeat is acknowledged, or a job stays")
		}
	}
}
