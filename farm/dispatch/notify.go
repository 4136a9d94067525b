package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	rules "svc/aggregates/farm"
	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// notifyRunners applies the current rows of runners to their connections: it closes those of
// revoked runners and tells the others of a drain.
func (f *farm) notifyRunners(ctx context.Context, list []*connection) error {
	rows, _ := f.d.DB.Query(ctx, selectRunners, f.workspace, idsOf(list))
	states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[runnerRow])
	if err != nil {
		return fmt.Errorf("read runners of %s: %w", f.workspace, err)
	}
	by := make(map[events.ID]runnerRow, len(states))
	for _, r := range states {
		by[r.ID] = r
	}
	for _, c := range list {
		r, ok := by[c.runner.ID]
		switch {
		case ok && r.State == events.RunnerStateRetired:
			c.out.close(wire.CloseRevoked, wire.Retired)
		case !ok || r.State.Barred():
			c.out.close(wire.CloseRevoked, "revoked")
		case c.presence.isGreeted():
			alive := c.applyRunner(r)
			// A live runner is offline in the log if it was silent, or if the sweep ran just before its hello.
			if alive && (c.presence.isUnannounced() || r.State == events.RunnerStateOffline) {
				f.d.warn("announce a runner", c.announceOnline(ctx), "runner", c.runner.ID)
			}
		}
	}
	return nil
}

// applyRunner takes over the runner's row, and sends a drain message if the wish to drain has
// changed. It reports whether the runner is alive: it was heard recently and has not said goodbye.
func (c *connection) applyRunner(r runnerRow) (alive bool) {
	if c.slots.apply(r) {
		c.send(wire.Drain{End: !r.Draining}, events.ID{}, 0)
	}
	return c.presence.isAlive(c.d.Now().Add(-c.d.OfflineAfter))
}

// notifyCancelled tells runners which of the given jobs they must cancel; nil means all jobs that
// are being cancelled.
func (f *farm) notifyCancelled(ctx context.Context, jobs []events.ID) error {
	rows, _ := f.d.DB.Query(ctx, `
		select j.job_id, j.epoch, j.runner_id, j.cancel->>'reason', j.due_at
		from jobs j where j.workspace_id = $1 and j.state = 'cancelling' and ($2::uuid[] is null or j.job_id = any($2))`, f.workspace, jobs)
	var job, runner events.ID
	var epoch int
	var reason string
	var deadline time.Time
	_, err := pgx.ForEachRow(rows, []any{&job, &epoch, &runner, &reason, &deadline}, func() error {
		for _, c := range f.connectionsOf(runner) {
			c.sendCancel(job, epoch, deadline, reason)
		}
		return nil
	})
	return fault.Wrap(err, "cancelled jobs of %s", f.workspace)
}

// sendCancel tells the runner to cancel a job, once, and again if the deadline moved closer.
func (c *connection) sendCancel(job events.ID, epoch int, deadline time.Time, reason string) {
	if c.slots.setCancelDeadline(job, epoch, deadline) {
		c.send(wire.Cancel{GraceSeconds: c.d.graceSeconds(deadline), Reason: reason}, job, epoch)
	}
}

// graceSeconds returns how many seconds a job has to end by itself before it is cancelled by force
// at the deadline, rounded up.
func (d *Dispatcher) graceSeconds(deadline time.Time) int {
	left := deadline.Sub(d.Now()) - rules.ForceAfter
	return int(max(0, left+time.Second-1) / time.Second)
}
