package dispatch

// Numbers are those of this process, for metrics: all but the first only grow.
type Numbers struct {
	Connected  int64 // runners
	Claimed    int64 // jobs that were given to runners
	Taken      int64 // messages of jobs that were acknowledged
	Duplicates int64 // of those that were stored before
	Stops      int64 // answers that a job is not the runner's
	Fenced     int64 // leases that were over
}

// Numbers returns what there is to tell.
func (d *Dispatcher) Numbers() Numbers {
	c := &d.counts
	return Numbers{c.connected.Load(), c.claimed.Load(), c.taken.Load(), c.duplicates.Load(), c.stops.Load(), c.fenced.Load()}
}
