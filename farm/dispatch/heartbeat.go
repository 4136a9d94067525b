package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	rules "svc/aggregates/farm"
	"svc/events"
	"svc/farm/ingest"
	"svc/farm/wire"
)

const (
	maxQueuedHeartbeats = 1024 // heartbeats that may wait, and that are stored together
	maxUsage            = wire.MaxHeld
)

// A heartbeat is one received from a runner.
type heartbeat struct {
	c    *connection
	at   time.Time
	body wire.Heartbeat
	held []heldJob
}

// A heartbeatWriter stores the heartbeats of all connections of this process in batches.
type heartbeatWriter struct {
	d     *Dispatcher
	queue chan *heartbeat
}

func newHeartbeatWriter(d *Dispatcher) *heartbeatWriter {
	h := &heartbeatWriter{d: d, queue: make(chan *heartbeat, maxQueuedHeartbeats)}
	d.working.Go(h.run)
	return h
}

// handleHeartbeat checks a heartbeat and queues it for the heartbeatWriter.
func (c *connection) handleHeartbeat(ctx context.Context, e wire.Envelope) error {
	h, err := wire.Read[wire.Heartbeat](e)
	if err != nil {
		return malformed(err)
	}
	list, err := parseHeld(h.Held)
	switch {
	case err != nil:
		return malformed(err)
	case len(h.Jobs) > maxUsage || math.IsNaN(h.Load) || math.IsInf(h.Load, 0):
		return malformed(fmt.Errorf("%w: a heartbeat out of range", wire.ErrFrame))
	}
	for i := range h.Jobs {
		u := &h.Jobs[i]
		if _, err := events.ParseID(u.Job); err != nil {
			return malformed(fmt.Errorf("%w: usage without a job", wire.ErrFrame))
		}
		u.CPUMs, u.RSSBytes = rules.ClampRunnerNumber(u.CPUMs), rules.ClampRunnerNumber(u.RSSBytes)
	}
	h.DiskFree, h.Memory = rules.ClampRunnerNumber(h.DiskFree), rules.ClampRunnerNumber(h.Memory)
	select {
	case c.d.heartbeats.queue <- &heartbeat{c: c, at: c.d.Now(), body: h, held: list}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *heartbeatWriter) run() {
	for {
		select {
		case <-h.d.ctx.Done():
			return
		case first := <-h.queue:
			beats := []*heartbeat{first}
			for len(beats) < maxQueuedHeartbeats && len(h.queue) > 0 {
				beats = append(beats, <-h.queue)
			}
			h.store(beats)
		}
	}
}

// store stores a batch of heartbeats and acknowledges them. If that fails none is acknowledged: the
// next heartbeat tries again, long before a lease expires.
func (h *heartbeatWriter) store(beats []*heartbeat) {
	ctx, cancel := context.WithTimeout(h.d.ctx, workTimeout)
	defer cancel()
	current, err := h.storePresence(ctx, beats)
	if err != nil {
		h.d.warn("store heartbeats", err)
		return
	}
	var live []*heartbeat
	for _, b := range beats {
		if !current[b.c.id] {
			b.c.out.close(wire.CloseSuperseded, "superseded")
			continue
		}
		live = append(live, b)
	}
	renewed, err := h.renewLeases(ctx, live)
	if err != nil {
		h.d.warn("renew leases", err)
		return
	}
	for _, b := range live {
		if err := h.answer(ctx, b, renewed); err != nil {
			h.d.warn("acknowledge a heartbeat", err)
		}
	}
}

// storePresence stores the machine data of heartbeats, and returns the connections that are still
// their runners' current ones.
func (h *heartbeatWriter) storePresence(ctx context.Context, beats []*heartbeat) (map[events.ID]bool, error) {
	newest := map[events.ID]*heartbeat{}
	for _, b := range beats {
		newest[b.c.id] = b
	}
	var workspaces, runners, connections []events.ID
	var at []time.Time
	var free []int
	var load []float64
	var disk, memory []int64
	var usage []string
	for _, b := range newest {
		text, err := json.Marshal(b.body.Jobs)
		if err != nil || b.body.Jobs == nil {
			text = []byte("[]")
		}
		workspaces, runners, connections = append(workspaces, b.c.runner.Workspace), append(runners, b.c.runner.ID), append(connections, b.c.id)
		at, free, load = append(at, b.at), append(free, min(max(b.body.Free, 0), math.MaxInt16)), append(load, b.body.Load)
		disk, memory, usage = append(disk, b.body.DiskFree), append(memory, b.body.Memory), append(usage, string(text))
	}
	rows, _ := h.d.DB.Query(ctx, `
		update runner_presence p set seen_at = greatest(p.seen_at, k.at), online = true, free = k.free, load = k.load, disk_free = k.disk,
			memory = k.memory, usage = k.usage::jsonb
		from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::int[], $6::float8[], $7::bigint[], $8::bigint[], $9::text[])
			as k (workspace_id, runner_id, connection_id, at, free, load, disk, memory, usage)
		where p.workspace_id = k.workspace_id and p.runner_id = k.runner_id and p.connection_id = k.connection_id
		returning k.connection_id`, workspaces, runners, connections, at, free, load, disk, memory, usage)
	list, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, err
	}
	current := make(map[events.ID]bool, len(list))
	for _, id := range list {
		current[id] = true
	}
	return current, nil
}

// A renewal is a request of a runner to renew one lease.
type renewal struct {
	ingest.LeaseKey
	epoch  int
	runner events.ID
}

// renewLeases renews the leases of the jobs that heartbeats list, each from the newest heartbeat
// that lists it, and returns those that it renewed. Leases that are fenced, expired or held by
// another runner are not renewed.
func (h *heartbeatWriter) renewLeases(ctx context.Context, beats []*heartbeat) (map[renewal]bool, error) {
	newest := map[renewal]time.Time{}
	for _, b := range beats {
		for _, k := range b.held {
			r := renewal{ingest.LeaseKey{Workspace: b.c.runner.Workspace, Job: k.job}, k.epoch, b.c.runner.ID}
			if b.at.After(newest[r]) {
				newest[r] = b.at
			}
		}
	}
	out := make(map[renewal]bool, len(newest))
	if len(newest) == 0 {
		return out, nil
	}
	var workspaces, jobs, runners []events.ID
	var epochs []int
	var at []time.Time
	for _, r := range slices.SortedFunc(maps.Keys(newest), func(a, b renewal) int { return a.Compare(b.LeaseKey) }) {
		workspaces, jobs, runners = append(workspaces, r.Workspace), append(jobs, r.Job), append(runners, r.runner)
		epochs, at = append(epochs, r.epoch), append(at, newest[r])
	}
	rows, _ := h.d.DB.Query(ctx, `
		with locked as materialized (
			select l.*, k.at from unnest($1::uuid[], $2::uuid[], $3::int[], $4::uuid[], $5::timestamptz[])
				as k (workspace_id, job_id, epoch, runner_id, at)
			cross join lateral (
				select l.workspace_id, l.job_id from job_leases l
				where l.workspace_id = k.workspace_id and l.job_id = k.job_id and l.epoch = k.epoch and l.runner_id = k.runner_id
				and not l.fenced and l.renewed_at >= k.at - $6::interval for update) l
		)
		update job_leases l set renewed_at = greatest(l.renewed_at, locked.at) from locked
		where l.workspace_id = locked.workspace_id and l.job_id = locked.job_id
		returning l.workspace_id, l.job_id, l.epoch, l.runner_id`, workspaces, jobs, epochs, runners, at, h.d.LeaseTime)
	var k renewal
	_, err := pgx.ForEachRow(rows, []any{&k.Workspace, &k.Job, &k.epoch, &k.runner}, func() error { out[k] = true; return nil })
	return out, err
}

// answer acknowledges a heartbeat, with a verdict on each job whose lease was not renewed.
func (h *heartbeatWriter) answer(ctx context.Context, b *heartbeat, renewed map[renewal]bool) error {
	var notRenewed []heldJob
	for _, k := range b.held {
		if !renewed[renewal{ingest.LeaseKey{Workspace: b.c.runner.Workspace, Job: k.job}, k.epoch, b.c.runner.ID}] {
			notRenewed = append(notRenewed, k)
		}
	}
	ack := wire.HeartbeatAck{Seq: b.body.Seq, ServerTime: wire.At(h.d.Now())}
	verdicts, err := h.d.verdicts(ctx, b.c.runner, notRenewed)
	if err != nil {
		return err
	}
	for _, k := range notRenewed {
		v := verdicts[k]
		if v.word == wire.Continue || v.word == wire.CancelJob { // its lease has expired, though no sweep has fenced it yet
			v.word = wire.StopJob
		}
		ack.Held = append(ack.Held, v.toWire(k))
		if v.word == wire.StopJob {
			b.c.Forget(k.job, k.epoch)
		}
	}
	b.c.noteFreeSlots(b.body.Free, len(b.held), b.at)
	b.c.send(ack, events.ID{}, 0)
	return nil
}

// noteFreeSlots notes how many slots the runner offers, and wakes the farm if it offers more than
// before.
func (c *connection) noteFreeSlots(free, holds int, at time.Time) {
	c.presence.setSeen(at)
	if !c.slots.setOffered(free, holds) {
		return
	}
	if _, free := c.freeSlots(); free > 0 {
		c.farm.wake()
	}
}
