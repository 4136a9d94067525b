package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates"
	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// workLimit is how long the database may take over one thing.
const workLimit = 20 * time.Second

// takeHello says who is there, and tells the runner what to do with what it holds. From
// then on this is its connection: the one before it is closed.
func (c *connection) takeHello(e wire.Envelope) error {
	h, err := wire.Read[wire.Hello](e)
	if err != nil {
		return malformed(err)
	}
	if len(h.Held) > wire.MaxHeld || h.Capacity < 0 {
		return malformed(fmt.Errorf("%w: hello of %d jobs, capacity %d", wire.ErrFrame, len(h.Held), h.Capacity))
	}
	list, err := c.listed(h.Held)
	if err != nil {
		return malformed(err)
	}
	ctx, cancel := context.WithTimeout(c.ctx, workLimit)
	defer cancel()
	c.mu.Lock()
	c.hello = aggregates.Hello{
		Labels: h.Labels, Capacity: h.Capacity, Agent: events.Agent{Version: h.Version, OS: h.OS, Arch: h.Arch, Sandboxes: h.Sandboxes},
	}
	c.mu.Unlock()
	err = c.announce(ctx)
	switch f := fault.As(err); {
	case errors.Is(err, aggregates.ErrRunnerOver) || errors.Is(err, aggregates.ErrNoRunner):
		return &violation{code: wire.CloseRevoked, text: "revoked"}
	case f != nil && f.Kind == fault.Invalid:
		return malformed(fmt.Errorf("%w: hello: %v", wire.ErrFrame, f.Details))
	case err != nil:
		return fmt.Errorf("connect runner: %w", err)
	}
	if err := c.appear(ctx); err != nil {
		return err
	}
	if err := c.know(ctx, h.Draining); err != nil {
		return err
	}
	// What it holds it works on: a hello is as good as a heartbeat.
	if _, err := c.d.hearts.renew(ctx, []*beat{{c: c, at: c.d.Now(), list: list}}); err != nil {
		return fmt.Errorf("renew leases of runner %s: %w", c.runner.ID, err)
	}
	verdicts, err := c.d.verdicts(ctx, c.runner, list)
	if err != nil {
		return err
	}
	again, err := c.d.undelivered(ctx, c.runner, list)
	if err != nil {
		return err
	}
	c.given(again)
	c.welcome(list, verdicts)
	c.farm.nudge() // it tells the runner of its jobs
	return nil
}

// listed returns what a runner says that it holds.
func (c *connection) listed(list []wire.Held) (out []claimed, err error) {
	if len(list) > wire.MaxHeld {
		return nil, fmt.Errorf("%w: %d jobs", wire.ErrFrame, len(list))
	}
	for _, h := range list {
		job, err := events.ParseID(h.Job)
		if err != nil || h.Epoch < 1 || h.Epoch > 1<<30 {
			return nil, fmt.Errorf("%w: a held job without id or epoch", wire.ErrFrame)
		}
		out = append(out, claimed{job, h.Epoch})
	}
	return out, nil
}

// appear makes this the connection of the runner.
func (c *connection) appear(ctx context.Context) error {
	rows, _ := c.d.DB.Query(ctx, `
		insert into runner_presence (workspace_id, runner_id, connection_id, online, connected_at, seen_at, free, load, disk_free, memory, usage)
		values ($1, $2, $3, true, $4, $4, 0, 0, 0, 0, '[]')
		on conflict (workspace_id, runner_id) do update set connection_id = excluded.connection_id, online = true,
			connected_at = excluded.connected_at, seen_at = excluded.seen_at, usage = excluded.usage
		returning declined, rests_until`,
		c.runner.Workspace, c.runner.ID, c.id, c.d.Now())
	known, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[declines])
	if err != nil {
		return fmt.Errorf("presence of runner %s: %w", c.runner.ID, err)
	}
	c.note(known)
	if before := c.farm.greet(c); before != nil {
		before.close(wire.CloseSuperseded, "superseded")
	}
	return nil
}

// A row of a runner, as far as it decides what it is given.
type runnerRow struct {
	ID        events.ID
	State     events.RunnerState
	Draining  bool
	Labels    []string
	Exclusive []string
	Capacity  int
	Left      *int
}

const selectRunners = `
	select r.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
		select runner_id, state, draining, labels, exclusive_labels, capacity, jobs_left from runners r
		where r.workspace_id = $1 and r.runner_id = k.runner_id offset 0) r`

// know looks up what the runner may be given.
func (c *connection) know(ctx context.Context, draining bool) error {
	rows, _ := c.d.DB.Query(ctx, selectRunners, c.runner.Workspace, []events.ID{c.runner.ID})
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[runnerRow])
	if err != nil {
		return fmt.Errorf("look up runner %s: %w", c.runner.ID, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.labels, c.excluded, c.capacity, c.left = row.Labels, row.Exclusive, row.Capacity, row.Left
	c.asked, c.draining = row.Draining, row.Draining || draining
	c.itself = draining
	return nil
}

// welcome answers a hello.
func (c *connection) welcome(list []claimed, verdicts map[claimed]verdict) {
	c.mu.Lock()
	c.greeted, c.seen = true, c.d.Now()
	w := wire.Welcome{
		Connection: c.id.String(), Runner: c.runner.ID.String(), ServerTime: c.d.Now().UTC(),
		HeartbeatSeconds: int(wire.HeartbeatEvery / time.Second), LeaseSeconds: int(c.d.LeaseTime / time.Second), Draining: c.asked,
		Limits: wire.Limits{
			MaxMessage: wire.MaxMessage, LogBytesPerJob: wire.MaxLog, WindowMessages: wire.WindowMessages, WindowBytes: wire.WindowBytes,
			ArtifactMaxJobBytes: c.d.ArtifactMaxJobBytes,
		},
	}
	for _, job := range list {
		v := verdicts[job]
		w.Held = append(w.Held, v.said(job))
		if v.word == wire.Continue || v.word == wire.CancelJob {
			c.jobs[job.job] = &held{epoch: job.epoch, next: v.acked + 1, cancelled: v.deadline, taken: true}
		}
	}
	c.send(w, events.ID{}, 0) // before anybody takes it for greeted
	c.mu.Unlock()
}
