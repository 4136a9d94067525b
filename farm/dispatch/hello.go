package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorilla/websocket"
	"github.com/jackc/pgx/v5"

	rules "svc/aggregates/farm"
	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// workTimeout limits the database work of one step.
const workTimeout = 20 * time.Second

// handleHello announces the runner, makes this its connection in place of the previous one, and
// answers with a verdict on each job that it holds.
func (c *connection) handleHello(ctx context.Context, e wire.Envelope) error {
	h, err := wire.Read[wire.Hello](e)
	if err != nil {
		return malformed(err)
	}
	if h.Capacity < 0 {
		return malformed(fmt.Errorf("%w: hello with capacity %d", wire.ErrFrame, h.Capacity))
	}
	list, err := parseHeld(h.Held)
	if err != nil {
		return malformed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	c.presence.setHello(rules.Hello{
		Labels: h.Labels, Capacity: h.Capacity, Agent: events.Agent{Version: h.Version, OS: h.OS, Arch: h.Arch, Sandboxes: h.Sandboxes},
	})
	err = c.announceOnline(ctx)
	switch f := fault.As(err); {
	case errors.Is(err, rules.ErrRunnerOver) || errors.Is(err, rules.ErrNoRunner):
		return &ending{code: wire.CloseRevoked, text: "revoked"}
	case f != nil && f.Kind == fault.Invalid:
		return malformed(fmt.Errorf("%w: hello: %s", wire.ErrFrame, f.DetailText()))
	case err != nil:
		return fmt.Errorf("connect runner: %w", err)
	}
	if err := c.claimPresence(ctx, h.Draining); err != nil {
		return err
	}
	if err := c.loadRunner(ctx, h.Draining); err != nil {
		return err
	}
	// The runner works on what it holds, so a hello renews leases as a heartbeat does.
	if _, err := c.d.heartbeats.renewLeases(ctx, []*heartbeat{{c: c, at: c.d.Now(), held: list}}); err != nil {
		return fmt.Errorf("renew leases of runner %s: %w", c.runner.ID, err)
	}
	verdicts, err := c.d.verdicts(ctx, c.runner, list)
	if err != nil {
		return err
	}
	leased, err := c.d.undelivered(ctx, c.runner.Workspace, []events.ID{c.runner.ID})
	if err != nil {
		return err
	}
	c.slots.addPending(without(leased[c.runner.ID], list)) // their assign messages were lost
	c.welcome(list, verdicts)
	c.farm.wake() // the farm delivers the pending jobs
	return nil
}

// parseHeld checks and converts the jobs that a runner says it holds.
func parseHeld(list []wire.Held) (out []heldJob, err error) {
	if len(list) > wire.MaxHeld {
		return nil, fmt.Errorf("%w: %d held jobs", wire.ErrFrame, len(list))
	}
	for _, h := range list {
		job, err := events.ParseID(h.Job)
		if err != nil || h.Epoch < 1 || h.Epoch > 1<<30 {
			return nil, fmt.Errorf("%w: a held job without id or epoch", wire.ErrFrame)
		}
		out = append(out, heldJob{job, h.Epoch})
	}
	return out, nil
}

// errLate closes a connection whose runner has a newer one. The runner may have this one after all, if
// clocks differ: it tries again at once, and not after a minute as it would if superseded.
var errLate = &ending{code: websocket.CloseTryAgainLater, text: "there is a newer connection"}

// claimPresence makes this the current connection of the runner, in the database and in this process,
// unless the runner has connected again since: a busy process may handle a hello long after its
// connection has broken. Ids of connections are ordered by time. draining is what its hello said.
func (c *connection) claimPresence(ctx context.Context, draining bool) error {
	rows, _ := c.d.DB.Query(ctx, `
		insert into runner_presence as p
			(workspace_id, runner_id, connection_id, online, connected_at, seen_at, free, load, disk_free, memory, usage, draining)
		values ($1, $2, $3, true, $4, $4, 0, 0, 0, 0, '[]', $5)
		on conflict (workspace_id, runner_id) do update set connection_id = excluded.connection_id, online = true,
			connected_at = excluded.connected_at, seen_at = excluded.seen_at, usage = excluded.usage, draining = excluded.draining
			where not p.online or p.connection_id < excluded.connection_id
		returning declined, rests_until`,
		c.runner.Workspace, c.runner.ID, c.id, c.d.Now(), draining)
	known, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[declines])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errLate
	case err != nil:
		return fmt.Errorf("claim presence of runner %s: %w", c.runner.ID, err)
	}
	c.backoff.set(known)
	switch before, ok := c.farm.setCurrent(c); {
	case !ok:
		return errLate
	case before != nil:
		before.out.close(wire.CloseSuperseded, "superseded")
	}
	return nil
}

// A runnerRow has the columns of a runner that decide what it is given. Exclusive has the labels that
// a job must ask for to run there. Left is how many jobs it may still take, nil without a limit.
type runnerRow struct {
	ID        events.ID
	State     events.RunnerState
	Draining  bool
	Labels    []string
	Exclusive []string
	Capacity  int
	Left      *int
}

// selectRunners looks each runner up by key, as "offset 0" forces. For runner_id = any($2) PostgreSQL may read
// all runners of the workspace.
const selectRunners = `
	select r.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
		select runner_id, state, draining, labels, exclusive_labels, capacity, jobs_left from runners r
		where r.workspace_id = $1 and r.runner_id = k.runner_id offset 0) r`

// loadRunner reads what the runner may be given. draining is what its hello said.
func (c *connection) loadRunner(ctx context.Context, draining bool) error {
	rows, _ := c.d.DB.Query(ctx, selectRunners, c.runner.Workspace, []events.ID{c.runner.ID})
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[runnerRow])
	if err != nil {
		return fmt.Errorf("look up runner %s: %w", c.runner.ID, err)
	}
	c.slots.load(row, draining)
	return nil
}

// heartbeatEvery returns the pause between heartbeats, so that several fit into a lease.
func (c *Config) heartbeatEvery() time.Duration {
	return max(time.Second, min(wire.HeartbeatEvery, c.LeaseTime/9))
}

// welcome answers a hello. Until the runner counts as greeted, which is after the welcome is queued,
// it is sent nothing about jobs.
func (c *connection) welcome(list []heldJob, verdicts map[heldJob]verdict) {
	w := wire.Welcome{
		Connection: c.id.String(), Runner: c.runner.ID.String(), ServerTime: wire.At(c.d.Now()),
		HeartbeatSeconds: int(c.d.heartbeatEvery() / time.Second), LeaseSeconds: int(c.d.LeaseTime / time.Second), Draining: c.slots.drainAsked(),
		Limits: wire.Limits{
			MaxMessage: wire.MaxMessage, LogBytesPerJob: wire.MaxLog, WindowMessages: wire.WindowMessages, WindowBytes: wire.WindowBytes,
			ArtifactMaxJobBytes: c.d.ArtifactMaxJobBytes,
		},
	}
	for _, job := range list {
		w.Held = append(w.Held, verdicts[job].toWire(job))
	}
	c.send(w, events.ID{}, 0)
	c.slots.hold(list, verdicts)
	c.presence.setGreeted(c.d.Now())
}
