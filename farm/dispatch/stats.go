package dispatch

// Stats are metrics of this process. All but Connected are counters.
type Stats struct {
	Connected    int64 // runners
	Leased       int64 // jobs leased to runners
	Acknowledged int64 // job messages acknowledged
	Duplicates   int64 // of those, messages that were stored already
	Stops        int64 // times a runner was told to stop a job that is not its own
	Fenced       int64 // leases that expired
}

// Stats returns the current values.
func (d *Dispatcher) Stats() Stats {
	c := &d.counts
	return Stats{c.connected.Load(), c.leased.Load(), c.acknowledged.Load(), c.duplicates.Load(), c.stops.Load(), c.fenced.Load()}
}
