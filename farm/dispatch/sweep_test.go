package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/dispatch"
	"svc/farm/wire"
)

// A log that takes long to read does not keep leases from being lost.
func TestLostLeaseDoesNotWaitForSealing(t *testing.T) {
	t.Parallel()
	var leads atomic.Bool
	j := newRunning(t, func(c *dispatch.Config) {
		c.Leads, c.SweepEvery = func(string) bool { return leads.Load() }, 10*time.Millisecond
	})
	ended := j.job
	j.a.send(finished("one\n"), ended, j.epoch, 3)
	j.a.acked(3)
	j.submit(j.r)
	j.job, j.epoch, _ = j.a.assigned()
	j.begin()

	sealing := j.hold("job_logs", "access exclusive mode")
	leads.Store(true)
	sealing.awaitWaiting()
	require.Zero(t, count(j.kinds(ended), "log_sealed"))
	j.clock.advance(91 * time.Second)
	require.Eventually(t, func() bool { return count(j.kinds(j.job), "lease_expired") == 1 }, waitLimit/2, 2*time.Millisecond)
	require.Zero(t, count(j.kinds(ended), "log_sealed"))
	sealing.release()
	require.Eventually(t, func() bool { return count(j.kinds(ended), "log_sealed") == 1 }, waitLimit, 2*time.Millisecond)
}

// While the log of one workspace is locked, deadlines of others are kept.
func TestLockedWorkspaceDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, other := s.replica(), *s
	other.ws = newID()
	var locked []events.ID
	for range 3 {
		locked = append(locked, s.submit(r, func(j *events.JobSpec) { j.Timeouts.QueueSeconds = 60 }))
	}
	free := other.submit(r, func(j *events.JobSpec) { j.Timeouts.QueueSeconds = 120 }) // is handled after those
	s.clock.advance(3 * time.Minute)
	tx, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `select from logs where workspace_id = $1 for update`, s.ws)
	require.NoError(t, err)
	r.SweepOnce(t.Context())
	require.Equal(t, events.JobStateExpired, other.state(free))
	for _, job := range locked {
		require.Equal(t, events.JobStateQueued, s.state(job))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	s.clock.advance(11 * time.Second)
	r.SweepOnce(t.Context())
	for _, job := range locked {
		require.Equal(t, events.JobStateExpired, s.state(job))
	}
}

// Jobs and runners whose step failed, as many as a step reads, do not hide the others from it.
func TestFailedStepsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	t.Run("lost lease", func(t *testing.T) {
		t.Parallel()
		j := newRunning(t)
		failed := j.copyRows("jobs", "job_id", j.job)
		j.copyRows("job_leases", "job_id", j.job)
		_, err := j.db.Exec(t.Context(), `update job_leases set fenced = true`)
		require.NoError(t, err)
		j.r.SweepExcept(t.Context(), failed)
		require.Equal(t, 1, count(j.kinds(j.job), "lease_expired"))
	})
	t.Run("cancelled job of silent runner", func(t *testing.T) {
		t.Parallel()
		j := newRunning(t)
		j.cancel()
		j.a.next(wire.TypeCancel)
		j.a.cut()
		failed := j.copyRows("jobs", "job_id", j.job)
		_, err := j.db.Exec(t.Context(), `update runner_presence set seen_at = '-infinity'`)
		require.NoError(t, err)
		j.r.SweepExcept(t.Context(), failed)
		require.Equal(t, events.JobStateCancelled, j.state(j.job))
	})
	t.Run("runner without jobs left", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		r := s.replica()
		runner := s.enrol(r, "builder", 1, 1)
		a := dial(t, r, s.ws, runner)
		a.greet()
		s.submit(r)
		job, epoch, _ := a.assigned()
		a.send(wire.Accept{}, job, epoch, 0)
		a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
		a.send(finished(""), job, epoch, 2)
		a.acked(2)
		failed := s.copyRows("runners", "runner_id", runner)
		r.SweepExcept(t.Context(), failed)
		s.waitForRunner(events.RunnerStateRetired, runner)
	})
}

// copyRows inserts 200 copies of a row with other ids. They come before the row itself, in the table and
// by id.
func (s *site) copyRows(table, key string, id events.ID) (copies []events.ID) {
	s.t.Helper()
	unique := map[string]string{"jobs": ", 'due_at', null", "runners": ", 'name', 'r' || i"}[table]
	rows, _ := s.db.Query(context.Background(), `
		insert into `+table+` select (jsonb_populate_record(r, jsonb_build_object('`+key+`', lpad(i::text, 32, '0')`+unique+`))).*
		from `+table+` r, generate_series(1, 200) i returning `+key)
	copies, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	require.NoError(s.t, err)
	_, err = s.db.Exec(context.Background(), `update `+table+` set `+key+` = `+key+` where `+key+` = $1`, id)
	require.NoError(s.t, err)
	return copies
}
