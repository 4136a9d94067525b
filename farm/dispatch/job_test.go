package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/secrets"
	"svc/farm/wire"
)

func (j *running) cancel() {
	j.t.Helper()
	_, err := j.r.CancelJob(context.Background(), commands.CancelJob{Meta: systemMeta(j.ws), Job: j.job, Reason: "superseded"})
	require.NoError(j.t, err)
}

// Whatever state a job is in, and whatever its runner does, it has ended at the latest 30 s after
// its grace period.
func TestCancelledJobEndsInEveryState(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	for name, c := range map[string]struct {
		begun  bool
		answer func(j *running) // how the runner reacts
		after  time.Duration
	}{
		"leased, and the runner declines":        {false, func(j *running) { j.a.send(wire.Decline{Reason: "busy"}, j.job, j.epoch, 0) }, 0},
		"leased, and the runner does not answer": {false, nil, grace + 30*time.Second},
		"running, and the runner ends it": {true, func(j *running) {
			j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "failed"}, j.job, j.epoch, 3)
		}, 0},
		"running, and succeeds anyway": {true, func(j *running) { j.a.send(finished("one\n"), j.job, j.epoch, 3) }, 0},
		"running, and the runner ignores the cancel": {true, func(j *running) {
			for range 4 {
				j.clock.advance(10 * time.Second)
				j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
				j.a.next(wire.TypeHeartbeatAck)
			}
		}, 0},
		"running, and the runner is silent": {true, nil, 31 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.clock.freeze()
			j := &running{site: s, r: s.replica()}
			j.runner = s.enrol(j.r, "builder", 2, 0)
			j.a = dial(t, j.r, s.ws, j.runner)
			j.a.greet()
			s.submit(j.r)
			j.job, j.epoch, _ = j.a.assigned()
			if c.begun {
				j.begin()
			}
			j.cancel()
			require.Equal(t, 10, body[wire.Cancel](t, j.a.next(wire.TypeCancel)).GraceSeconds)
			if c.answer != nil {
				c.answer(j)
			}
			j.clock.advance(c.after)
			require.Eventually(t, func() bool {
				j.r.SweepOnce(t.Context())
				return j.state(j.job) == events.JobStateCancelled
			}, waitLimit, 10*time.Millisecond, "%v", s.kinds(j.job))
			j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
			v := body[wire.HeartbeatAck](t, j.a.next(wire.TypeHeartbeatAck)).Held[0].Verdict
			require.Contains(t, []string{wire.StopJob, wire.Done}, v)
			require.Equal(t, 1, count(s.kinds(j.job), "cancelled")+count(s.kinds(j.job), "finished"), s.kinds(j.job))
		})
	}
}

// Cancelling again can shorten the grace period, but not extend it.
func TestCancelAgainShortensGrace(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.clock.freeze()
	again := func(seconds int) {
		t.Helper()
		_, err := j.r.CancelJob(t.Context(), commands.CancelJob{Meta: systemMeta(j.ws), Job: j.job, Grace: &seconds})
		require.NoError(t, err)
	}
	again(60)
	require.Equal(t, 60, body[wire.Cancel](t, j.a.next(wire.TypeCancel)).GraceSeconds)
	j.clock.advance(10 * time.Second)
	j.a.cut()
	j.a = dial(t, j.r, j.ws, j.runner)
	held := j.a.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch}).Held[0]
	require.Equal(t, wire.CancelJob, held.Verdict)
	require.Equal(t, 50, held.GraceSeconds)
	again(51)
	again(5)
	require.Equal(t, 5, body[wire.Cancel](t, j.a.next(wire.TypeCancel)).GraceSeconds)
	again(0)
	require.Equal(t, 0, body[wire.Cancel](t, j.a.next(wire.TypeCancel)).GraceSeconds)
	j.clock.advance(31 * time.Second)
	require.Eventually(t, func() bool {
		j.r.SweepOnce(t.Context())
		return j.state(j.job) == events.JobStateCancelled
	}, waitLimit, 10*time.Millisecond, "%v", j.kinds(j.job))
}

func count(list []string, word string) (n int) {
	for _, w := range list {
		if w == word {
			n++
		}
	}
	return n
}

// A runner frozen for longer than its lease has lost the job, and its later messages are not
// stored.
func TestUnrenewedLeaseLosesJob(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.clock.freeze()
	j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
	j.a.next(wire.TypeHeartbeatAck)
	j.clock.advance(89 * time.Second)
	j.r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateRunning, j.state(j.job))
	j.clock.advance(2 * time.Second)
	j.r.SweepOnce(t.Context())
	require.Equal(t, 1, count(j.kinds(j.job), "lease_expired"))
	require.Equal(t, 1, count(j.kinds(j.job), "requeued"))

	j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
	for e := range j.a.got { // the job may be assigned again before
		if e.Type == wire.TypeHeartbeatAck {
			require.Equal(t, wire.StopJob, body[wire.HeartbeatAck](t, e).Held[0].Verdict)
			break
		}
	}
	j.a.chunk(j.job, j.epoch, 3, 4, "late\n")
	j.a.next(wire.TypeStop)
	j.a.send(finished("one\nlate\n"), j.job, j.epoch, 4)
	j.a.next(wire.TypeStop)
	require.Zero(t, count(j.kinds(j.job), "finished"))
	size, err := j.r.logs.Size(t.Context(), j.ws, j.job, j.epoch)
	require.NoError(t, err)
	require.EqualValues(t, 4, size)
}

// A heartbeat renews the leases of the jobs that it lists, and no others.
func TestHeartbeatRenewsListedJobs(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.submit(j.r)
	lost, epoch, _ := j.a.assigned() // the runner does not list this one
	j.a.send(wire.Accept{}, lost, epoch, 0)
	j.a.next(wire.TypeAck)
	j.clock.advance(60 * time.Second)
	j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
	j.a.next(wire.TypeHeartbeatAck)
	j.clock.advance(40 * time.Second)
	j.r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateRunning, j.state(j.job))
	require.Equal(t, 1, count(j.kinds(lost), "lease_expired"), "%v", j.kinds(lost))
}

// The assign message was lost. The runner is sent it again when it reconnects; if it does not
// answer, the job returns to the queue.
func TestLostAssignmentIsSentAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 1, 0)
	a := dial(t, r, s.ws, runner)
	a.greet()
	job := s.submit(r)
	_, epoch, _ := a.assigned()
	b := dial(t, r, s.ws, runner)
	b.greet() // its hello lists no jobs
	again, same, _ := b.assigned()
	require.Equal(t, job, again)
	require.Equal(t, epoch, same)
	s.clock.advance(21 * time.Second)
	r.SweepOnce(t.Context())
	s.waitForState(events.JobStateQueued, job)
	require.Equal(t, []string{"submitted", "leased", "declined", "requeued"}, s.kinds(job))
	b.send(wire.Accept{}, job, epoch, 0)
	b.next(wire.TypeStop)
	s.clock.advance(31 * time.Second) // the only runner is a candidate again after a while
	b.send(wire.Heartbeat{Free: 1}, events.ID{}, 0, 0)
	again, epoch, _ = b.assigned()
	require.Equal(t, job, again)
	require.Equal(t, 2, epoch)
}

// The runner begins the job when its accept is acknowledged, and then has the whole lease time.
func TestAcceptIsAcknowledgedAndRenewsLease(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.clock.freeze()
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	s.submit(r)
	job, epoch, _ := a.assigned()
	s.clock.advance(15 * time.Second)
	for range 2 { // the first acknowledgement may be lost
		a.send(wire.Accept{}, job, epoch, 0)
		require.Zero(t, body[wire.Ack](t, a.next(wire.TypeAck)).Upto)
	}
	s.clock.advance(89 * time.Second)
	r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateLeased, s.state(job))
	s.clock.advance(2 * time.Second)
	r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateQueued, s.state(job), "%v", s.kinds(job))
}

// The queue timeout applies until the first lease. A job that was leased and lost may wait again,
// for up to a day.
func TestRequeuedJobGetsNewQueueTimeout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	a := dial(t, r, s.ws, s.enrol(r, "builder", 1, 0))
	a.greet()
	s.submit(r, func(s *events.JobSpec) { s.Timeouts.QueueSeconds = 60 })
	job, epoch, _ := a.assigned()
	a.send(wire.Accept{}, job, epoch, 0)
	a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
	a.acked(1)
	s.clock.advance(91 * time.Second)
	r.SweepOnce(t.Context()) // the lease expires
	require.Equal(t, events.JobStateQueued, s.state(job))
	var due, expires time.Time
	require.NoError(t, s.db.QueryRow(t.Context(), `select due_at, expires_at from jobs where job_id = $1`, job).Scan(&due, &expires))
	require.WithinDuration(t, s.clock.now().Add(24*time.Hour), expires, time.Minute)
	require.Equal(t, expires, due, "the clock does not ask before")
	s.clock.advance(23 * time.Hour)
	r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateQueued, s.state(job), "%v", s.kinds(job))
	s.clock.advance(time.Hour + time.Minute)
	r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateExpired, s.state(job))
}

func TestQueueAndRunTimeouts(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	beat := func() {
		j.a.send(wire.Heartbeat{Held: []wire.Held{{Job: j.job.String(), Epoch: j.epoch}}}, events.ID{}, 0, 0)
		j.a.next(wire.TypeHeartbeatAck)
	}
	waits := j.submit(j.r, func(s *events.JobSpec) { s.Requires.Labels = []string{"gpu=a100"}; s.Timeouts.QueueSeconds = 600 })
	for range 11 {
		j.clock.advance(time.Minute)
		beat()
	}
	j.r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateExpired, j.state(waits))
	require.Equal(t, "run_timeout", body[wire.Cancel](t, j.a.next(wire.TypeCancel)).Reason)
	j.a.send(wire.Event{Kind: wire.EventFinished, Outcome: "timed_out"}, j.job, j.epoch, 3)
	j.a.acked(3)
	require.Equal(t, events.JobStateTimedOut, j.state(j.job))
	j.r.SweepOnce(t.Context())
	require.Equal(t, 1, count(j.kinds(j.job), "log_sealed"))
}

func TestSecretsAreRevealedOnlyToTheRunner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica(func(c *dispatch.Config) {
		c.Reveal = func(_ context.Context, _ events.ID, names []string) (map[string]string, error) {
			if names[0] == "NONE" {
				return nil, &secrets.MissingError{Name: "NONE"}
			}
			return map[string]string{names[0]: "marker-of-a-secret"}, nil
		}
	})
	a := dial(t, r, s.ws, s.enrol(r, "builder", 2, 0))
	a.greet()
	s.submit(r, func(j *events.JobSpec) { j.Secrets = []string{"TOKEN"} })
	_, _, assign := a.assigned()
	require.Equal(t, map[string]string{"TOKEN": "marker-of-a-secret"}, assign.Secrets)
	missing := s.submit(r, func(j *events.JobSpec) { j.Secrets = []string{"NONE"} })
	s.waitForState(events.JobStateCancelled, missing)
	var n int
	require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where data::text like '%marker-of%'`).Scan(&n))
	require.Zero(t, n)
	require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from events where data::text like '%there is no secret NONE%'`).Scan(&n))
	require.Positive(t, n)
}

// A hello renews leases as a heartbeat does.
func TestHelloRenewsListedJobs(t *testing.T) {
	t.Parallel()
	j := newRunning(t)
	j.clock.advance(60 * time.Second)
	b := dial(t, j.r, j.ws, j.runner)
	require.Equal(t, wire.Continue, b.greet(wire.Held{Job: j.job.String(), Epoch: j.epoch}).Held[0].Verdict)
	j.clock.advance(60 * time.Second)
	j.r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateRunning, j.state(j.job))
	j.clock.advance(31 * time.Second)
	j.r.SweepOnce(t.Context())
	require.Equal(t, 1, count(j.kinds(j.job), "lease_expired"))
}
