package runner

import (
	"context"
	"maps"
	"slices"
	"time"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// beat sends a heartbeat now and then one each period, and tells of a drain in between.
func (c *connection) beat(ctx context.Context, period time.Duration) error {
	t := time.NewTicker(period)
	defer t.Stop()
	told := c.s.drainingHere()
	for {
		if err := c.heartbeat(); err != nil {
			return err
		}
		for waiting := true; waiting; {
			c.s.mu.Lock()
			changed := c.s.changed
			c.s.mu.Unlock()
			if now := c.s.drainingHere(); now != told {
				told = now
				if err := c.queue(wire.Drain{End: !now}, key{}); err != nil {
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

// heartbeat lists the jobs that are held. What it promises counts from before it is sent.
func (c *connection) heartbeat() error {
	s := c.s
	b := beat{at: s.cfg.Boot()}
	h := wire.Heartbeat{
		Free: max(0, s.cfg.Capacity-s.busy()), Load: load(), DiskFree: max(0, diskFree(string(s.cfg.Folder))), Memory: memory(),
	}
	if s.draining() {
		h.Free = 0
	}
	for _, j := range s.list() {
		if j.beats() && len(h.Held) < wire.MaxHeld {
			b.jobs = append(b.jobs, j)
			h.Held = append(h.Held, wire.Held{Job: j.job, Epoch: j.epoch})
		}
	}
	h.Jobs = usage(b.jobs)
	c.mu.Lock()
	c.seq++
	h.Seq = c.seq
	c.beats[c.seq] = b
	delete(c.beats, c.seq-remembered)
	c.mu.Unlock()
	return c.queue(h, key{})
}

// usage is what jobs that run take.
func usage(jobs []*job) (list []wire.Usage) {
	processes := map[int]string{}
	for _, j := range jobs {
		if pid := j.process(); pid != 0 {
			processes[pid] = j.job
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

// remembered is how many heartbeats wait for their acknowledgement: those of a lease and more.
const remembered = 32

// acked extends the leases of what an acknowledged heartbeat named, but for what has a verdict.
func (c *connection) acked(a wire.HeartbeatAck) {
	c.mu.Lock()
	b, ok := c.beats[a.Seq]
	for seq := range c.beats {
		if seq <= a.Seq {
			delete(c.beats, seq) // an earlier one promises less
		}
	}
	if ok {
		c.freshAt = max(c.freshAt, b.at)
	}
	c.mu.Unlock()
	c.s.mu.Lock()
	lease := c.s.lease
	c.s.mu.Unlock()
	taken := map[key]bool{}
	for _, v := range a.Held {
		if v.Verdict == wire.StopJob || v.Verdict == wire.Done {
			taken[key{v.Job, v.Epoch}] = true
		}
		c.s.verdict(v, false)
	}
	for _, j := range b.jobs {
		if !taken[j.key] {
			j.extend(b.at + lease - wire.FenceMargin)
		}
	}
}

// fresh reports whether the service was heard a short while ago, and since when a lease
// that it grants now counts at the latest.
func (c *connection) fresh() (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freshAt, c.s.cfg.Boot()-c.freshAt <= freshLink
}
