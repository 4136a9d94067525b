package dispatch

import (
	"context"

	"svc/events"
)

// SweepExcept sweeps once, as if the steps of these jobs and runners had just failed.
func (d *Dispatcher) SweepExcept(ctx context.Context, failed []events.ID) {
	d.sweep().Once(ctx, failed...)
}

// QueuedHeartbeats returns how many heartbeats wait to be stored.
func (d *Dispatcher) QueuedHeartbeats() int { return len(d.heartbeats.queue) }

// A Chunk is a chunk of a job's log.
type Chunk struct {
	Job         events.ID
	Seq, Offset int64
	Data        string
}

// WriteChunks stores chunks that a runner has sent of first attempts, in one transaction.
func (d *Dispatcher) WriteChunks(ctx context.Context, r Runner, chunks ...Chunk) error {
	var list []*item
	for _, k := range chunks {
		list = append(list, &item{
			c: &connection{d: d, runner: r}, job: k.Job, epoch: 1, seq: k.Seq, at: d.Now(), offset: k.Offset, data: []byte(k.Data),
		})
	}
	_, err := d.ingest.writeChunks(ctx, list)
	return err
}
