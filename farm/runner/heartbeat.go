package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// heartbeatLoop sends a heartbeat at once and then every period, and reports a change of this
// side's drain in between.
func (c *connection) heartbeatLoop(ctx context.Context, period time.Duration) error {
	t := time.NewTicker(period)
	defer t.Stop()
	reported := c.s.drainingHere()
	for {
		if err := c.sendHeartbeat(); err != nil {
			return err
		}
		for waiting := true; waiting; {
			c.s.mu.Lock()
			changed := c.s.changed
			c.s.mu.Unlock()
			if now := c.s.drainingHere(); now != reported {
				reported = now
				if err := c.queue(wire.Drain{End: !now}, attemptKey{}); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-t.C:
				waiting = false
			case <-changed:
			}
		}
	}
}

// sendHeartbeat queues a heartbeat that lists the held jobs. The lease that it renews counts from
// before it is sent.
func (c *connection) sendHeartbeat() error {
	s := c.s
	b := sentHeartbeat{at: s.cfg.BootTime()}
	h := wire.Heartbeat{
		Free: max(0, s.cfg.Capacity-s.runningJobs()), Load: load(), DiskFree: max(0, diskFree(string(s.cfg.Folder))), Memory: memory(),
	}
	if s.draining() {
		h.Free = 0
	}
	for _, j := range s.jobsToList() {
		if j.inHeartbeats() && len(h.Held) < wire.MaxHeld {
			b.jobs = append(b.jobs, j)
			h.Held = append(h.Held, wire.Held{Job: j.jobID, Epoch: j.epoch})
		}
	}
	h.Jobs = usage(b.jobs)
	c.mu.Lock()
	c.seq++
	h.Seq = c.seq
	c.heartbeats[c.seq] = b
	delete(c.heartbeats, c.seq-maxUnacked)
	c.mu.Unlock()
	return c.queue(h, attemptKey{})
}

// usage returns the resource usage of running jobs.
func usage(jobs []*job) (list []wire.Usage) {
	processes := map[int]string{}
	for _, j := range jobs {
		if pid := j.processID(); pid != 0 {
			processes[pid] = j.jobID
		}
	}
	if len(processes) == 0 {
		return nil
	}
	for pid, taken := range sandbox.Usage(slices.Collect(maps.Keys(processes))) {
		list = append(list, wire.Usage{Job: processes[pid], CPUMs: taken.CPU.Milliseconds(), RSSBytes: taken.RSS})
	}
	return list
}

// maxUnacked is how many unacknowledged heartbeats are remembered, more than are sent during a
// lease.
const maxUnacked = 32

// handleHeartbeatAck extends the leases of the jobs in an acknowledged heartbeat, and applies the
// verdicts.
func (c *connection) handleHeartbeatAck(a wire.HeartbeatAck) {
	c.mu.Lock()
	b, ok := c.heartbeats[a.Seq]
	for seq := range c.heartbeats {
		if seq <= a.Seq {
			delete(c.heartbeats, seq) // an earlier heartbeat extends no lease further
		}
	}
	if ok {
		c.ackedAt = max(c.ackedAt, b.at)
	}
	c.mu.Unlock()
	c.s.mu.Lock()
	lease := c.s.lease
	c.s.mu.Unlock()
	taken := map[attemptKey]bool{}
	for _, v := range a.Held {
		if v.Verdict == wire.StopJob || v.Verdict == wire.Done {
			taken[attemptKey{v.Job, v.Epoch}] = true
		}
		c.s.applyVerdict(v, false)
	}
	for _, j := range b.jobs {
		if !taken[j.attemptKey] {
			j.extendFence(b.at + lease - wire.FenceMargin)
		}
	}
}

// fresh reports whether the service was heard recently. since is the earliest time from which a
// lease that it grants now may count.
func (c *connection) fresh() (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ackedAt, c.s.cfg.BootTime()-c.ackedAt <= freshFor
}
