package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates"
	"svc/events"
	"svc/farm/wire"
)

const (
	heartsQueued = 1024 // heartbeats that wait to be stored together
	maxUsage     = wire.MaxHeld
)

// A beat is a heartbeat of a connection.
type beat struct {
	c    *connection
	at   time.Time
	said wire.Heartbeat
	list []claimed
}

// hearts store the heartbeats of all connections of a process, those of a moment together.
type hearts struct {
	d     *Dispatcher
	queue chan *beat
}

func newHearts(d *Dispatcher) *hearts {
	h := &hearts{d: d, queue: make(chan *beat, heartsQueued)}
	d.working.Go(h.run)
	return h
}

// takeHeartbeat takes in that the runner lives, and what it works on.
func (c *connection) takeHeartbeat(e wire.Envelope) error {
	h, err := wire.Read[wire.Heartbeat](e)
	if err != nil {
		return malformed(err)
	}
	list, err := c.listed(h.Held)
	switch {
	case err != nil:
		return malformed(err)
	case len(h.Jobs) > maxUsage || math.IsNaN(h.Load) || math.IsInf(h.Load, 0):
		return malformed(fmt.Errorf("%w: a heartbeat out of range", wire.ErrFrame))
	}
	for i := range h.Jobs {
		u := &h.Jobs[i]
		if _, err := events.ParseID(u.Job); err != nil {
			return malformed(fmt.Errorf("%w: usage of no job", wire.ErrFrame))
		}
		u.CPUMs, u.RSSBytes = aggregates.ClampRunnerNumber(u.CPUMs), aggregates.ClampRunnerNumber(u.RSSBytes)
	}
	h.DiskFree, h.Memory = aggregates.ClampRunnerNumber(h.DiskFree), aggregates.ClampRunnerNumber(h.Memory)
	select {
	case c.d.hearts.queue <- &beat{c: c, at: c.d.Now(), said: h, list: list}:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (h *hearts) run() {
	for {
		select {
		case <-h.d.ctx.Done():
			return
		case first := <-h.queue:
			beats := []*beat{first}
			for len(beats) < heartsQueued && len(h.queue) > 0 {
				beats = append(beats, <-h.queue)
			}
			h.take(beats)
		}
	}
}

// take stores heartbeats and answers them. Where that fails nobody is answered: the next
// heartbeat tries again, long before a lease is over.
func (h *hearts) take(beats []*beat) {
	ctx, cancel := context.WithTimeout(h.d.ctx, workLimit)
	defer cancel()
	current, err := h.see(ctx, beats)
	if err != nil {
		h.d.warn("store heartbeats", err)
		return
	}
	var lively []*beat
	for _, b := range beats {
		if !current[b.c.id] {
			b.c.close(wire.CloseSuperseded, "superseded")
			continue
		}
		lively = append(lively, b)
	}
	renewed, err := h.renew(ctx, lively)
	if err != nil {
		h.d.warn("renew leases", err)
		return
	}
	for _, b := range lively {
		if err := h.answer(ctx, b, renewed); err != nil {
			h.d.warn("answer a heartbeat", err)
		}
	}
}

// see stores what runners say of themselves, and returns the connections that are still theirs.
func (h *hearts) see(ctx context.Context, beats []*beat) (map[events.ID]bool, error) {
	newest := map[events.ID]*beat{}
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
		text, err := json.Marshal(b.said.Jobs)
		if err != nil || b.said.Jobs == nil {
			text = []byte("[]")
		}
		workspaces, runners, connections = append(workspaces, b.c.runner.Workspace), append(runners, b.c.runner.ID), append(connections, b.c.id)
		at, free, load = append(at, b.at), append(free, min(max(b.said.Free, 0), math.MaxInt16)), append(load, b.said.Load)
		disk, memory, usage = append(disk, b.said.DiskFree), append(memory, b.said.Memory), append(usage, string(text))
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

// renewal is a lease that a runner says it works under.
type renewal struct {
	leaseKey
	epoch  int
	runner events.ID
}

// renew moves the leases on that runners list: no others, none that was fenced, and none
// that is over.
func (h *hearts) renew(ctx context.Context, beats []*beat) (map[renewal]bool, error) {
	var list []renewal
	var at time.Time
	for _, b := range beats {
		for _, k := range b.list {
			list = append(list, renewal{leaseKey{b.c.runner.Workspace, k.job}, k.epoch, b.c.runner.ID})
		}
		if at.IsZero() || b.at.Before(at) {
			at = b.at // of all of them: they came within a moment
		}
	}
	out := make(map[renewal]bool, len(list))
	if len(list) == 0 {
		return out, nil
	}
	slices.SortFunc(list, func(a, b renewal) int { return a.compare(b.leaseKey) })
	list = slices.CompactFunc(list, func(a, b renewal) bool { return a == b })
	var workspaces, jobs, runners []events.ID
	var epochs []int
	for _, k := range list {
		workspaces, jobs, runners, epochs = append(workspaces, k.workspace), append(jobs, k.job), append(runners, k.runner), append(epochs, k.epoch)
	}
	rows, _ := h.d.DB.Query(ctx, `
		with locked as materialized (
			select l.* from unnest($1::uuid[], $2::uuid[], $3::int[], $4::uuid[]) as k (workspace_id, job_id, epoch, runner_id)
			cross join lateral (
				select l.workspace_id, l.job_id, l.epoch, l.runner_id from job_leases l
				where l.workspace_id = k.workspace_id and l.job_id = k.job_id and l.epoch = k.epoch and l.runner_id = k.runner_id
				and not l.fenced and l.renewed_at >= $6 for update) l
		)
		update job_leases l set renewed_at = greatest(l.renewed_at, $5) from locked
		where l.workspace_id = locked.workspace_id and l.job_id = locked.job_id
		returning l.workspace_id, l.job_id, l.epoch, l.runner_id`, workspaces, jobs, epochs, runners, at, at.Add(-h.d.LeaseTime))
	var k renewal
	_, err := pgx.ForEachRow(rows, []any{&k.workspace, &k.job, &k.epoch, &k.runner}, func() error { out[k] = true; return nil })
	return out, err
}

// answer tells a runner what to do with the jobs whose leases were not renewed.
func (h *hearts) answer(ctx context.Context, b *beat, renewed map[renewal]bool) error {
	var rest []claimed
	for _, k := range b.list {
		if !renewed[renewal{leaseKey{b.c.runner.Workspace, k.job}, k.epoch, b.c.runner.ID}] {
			rest = append(rest, k)
		}
	}
	ack := wire.HeartbeatAck{Seq: b.said.Seq, ServerTime: h.d.Now().UTC()}
	verdicts, err := h.d.verdicts(ctx, b.c.runner, rest)
	if err != nil {
		return err
	}
	for _, k := range rest {
		v := verdicts[k]
		if v.word == wire.Continue || v.word == wire.CancelJob { // its lease is over, though nobody has said so yet
			v.word = wire.StopJob
		}
		ack.Held = append(ack.Held, v.said(k))
		if v.word == wire.StopJob {
			b.c.forget(k.job, k.epoch)
		}
	}
	b.c.offers(b.said.Free, len(b.list), b.at)
	b.c.send(ack, events.ID{}, 0)
	return nil
}

// offers notes how many places the runner keeps from being used.
func (c *connection) offers(free, holds int, at time.Time) {
	c.mu.Lock()
	c.seen = at
	before := c.free()
	c.blocked = max(0, c.capacity-holds-max(free, 0))
	more := c.free() > before
	c.mu.Unlock()
	if more {
		c.farm.nudge()
	}
}
