package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates"
	"svc/events"
	"svc/farm/wire"
)

// tellRunners tells runners what became of them.
func (f *farm) tellRunners(ctx context.Context, list []*connection) error {
	rows, _ := f.d.DB.Query(ctx, selectRunners, f.workspace, idsOf(list))
	states, err := pgx.CollectRows(rows, pgx.RowToStructByPos[runnerRow])
	if err != nil {
		return fmt.Errorf("runners of %s: %w", f.workspace, err)
	}
	by := make(map[events.ID]runnerRow, len(states))
	for _, r := range states {
		by[r.ID] = r
	}
	for _, c := range list {
		r, ok := by[c.runner.ID]
		switch {
		case !ok || r.State.Barred():
			c.close(wire.CloseRevoked, "revoked")
		case c.isGreeted():
			lives := c.learn(r)
			if lives && (c.isLate() || r.State == events.RunnerIsOffline) { // it was silent for a while, or the clock faster than its hello
				f.d.warn("say that a runner is there", c.announce(ctx), "runner", c.runner.ID)
			}
		}
	}
	return nil
}

// learn takes in what the log says of the runner, and tells it if it is to drain. It reports
// whether the runner lives: it was heard of not long ago and has not said goodbye.
func (c *connection) learn(r runnerRow) (lives bool) {
	c.mu.Lock()
	c.left, c.capacity, c.labels, c.excluded = r.Left, r.Capacity, r.Labels, r.Exclusive
	changed := c.asked != r.Draining
	c.asked = r.Draining
	c.draining = c.asked || c.itself
	lives = !c.leaves && c.d.Now().Sub(c.seen) <= c.d.Silent
	c.mu.Unlock()
	if changed {
		c.send(wire.Drain{End: !r.Draining}, events.ID{}, 0)
	}
	return lives
}

// isLate reports whether something about the runner has changed that the log does not say.
func (c *connection) isLate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// tellCancelled tells runners which of their jobs are to end: of those named, or all.
func (f *farm) tellCancelled(ctx context.Context, jobs []events.ID) error {
	rows, _ := f.d.DB.Query(ctx, `
		select j.job_id, j.epoch, j.runner_id, j.cancel->>'reason', j.due_at
		from jobs j where j.workspace_id = $1 and j.state = 'cancelling' and ($2::uuid[] is null or j.job_id = any($2))`, f.workspace, jobs)
	var job, runner events.ID
	var epoch int
	var reason string
	var deadline time.Time
	_, err := pgx.ForEachRow(rows, []any{&job, &epoch, &runner, &reason, &deadline}, func() error {
		for _, c := range f.of(runner) {
			c.cancel(job, epoch, deadline, reason)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cancelled jobs of %s: %w", f.workspace, err)
	}
	return nil
}

// cancel tells the runner to end a job, once, and again if it has less time for that.
func (c *connection) cancel(job events.ID, epoch int, deadline time.Time, reason string) {
	c.mu.Lock()
	h := c.jobs[job]
	tell := h != nil && h.epoch == epoch && (h.cancelled.IsZero() || deadline.Before(h.cancelled))
	if tell {
		h.cancelled = deadline
	}
	c.mu.Unlock()
	if tell {
		c.send(wire.Cancel{GraceSeconds: c.d.graceUntil(deadline), Reason: reason}, job, epoch)
	}
}

// graceUntil is how many seconds a job still has to end by itself that counts as ended by a
// deadline, a begun one for a whole.
func (d *Dispatcher) graceUntil(deadline time.Time) int {
	left := deadline.Sub(d.Now()) - aggregates.ForceAfter
	return int(max(0, left+time.Second-1) / time.Second)
}

// takeDrain takes in that the runner takes no more jobs, or that it does again.
func (c *connection) takeDrain(e wire.Envelope) error {
	m, err := wire.Read[wire.Drain](e)
	if err != nil {
		return malformed(err)
	}
	c.mu.Lock()
	c.itself = !m.End
	c.draining = c.asked || c.itself
	c.mu.Unlock()
	c.farm.nudge()
	return nil
}

// takeGoodbye takes in that the runner ends.
func (c *connection) takeGoodbye() error {
	c.mu.Lock()
	c.leaves, c.draining, c.itself = true, true, true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, workLimit)
	defer cancel()
	if err := c.leave(ctx); err != nil {
		return err
	}
	return &violation{code: closeNormal, text: "goodbye"}
}
