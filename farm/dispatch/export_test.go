package dispatch

import (
	"context"

	"svc/events"
	"svc/farm/ingest"
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

// A silent connection takes acknowledgements.
type silent struct{ ingest.Connection }

func (silent) Acknowledge(events.ID, int, int64) {}

// WriteChunks stores chunks that a runner has sent of first attempts, in one transaction.
func (d *Dispatcher) WriteChunks(ctx context.Context, r Runner, chunks ...Chunk) error {
	var list []*ingest.Item
	for _, k := range chunks {
		list = append(list, &ingest.Item{
			From: silent{}, Meta: r.Meta(), Runner: r.ID, Job: k.Job, Epoch: 1, Seq: k.Seq, At: d.Now(), Offset: k.Offset, Data: []byte(k.Data),
		})
	}
	return d.ingest.StoreChunks(ctx, list)
}
