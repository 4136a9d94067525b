package dispatch

import (
	"context"
	"time"

	"svc/events"
)

// A QueueKey is a [queueKey].
type QueueKey = queueKey

// QueueKeys returns the next page of a workspace's queue keys.
func (d *Dispatcher) QueueKeys(ctx context.Context, workspace events.ID, sets []string, after QueueKey) ([]QueueKey, error) {
	return (&farm{d: d, workspace: workspace}).queueKeys(ctx, sets, after)
}

// SweepExcept sweeps once, as if the steps of these jobs and runners had just failed.
func (d *Dispatcher) SweepExcept(ctx context.Context, failed []events.ID) {
	for _, s := range d.sweeps() {
		for _, id := range failed {
			s.retryAt[id] = d.Now().Add(time.Hour)
		}
		s.round(ctx)
	}
}

// QueuedHeartbeats returns how many heartbeats wait to be stored.
func (d *Dispatcher) QueuedHeartbeats() int { return len(d.heartbeats.queue) }

// A Piece is a piece of a job's log.
type Piece struct {
	Job         events.ID
	Seq, Offset int64
	Data        string
}

// WritePieces stores pieces that a runner has sent of first attempts, in one transaction.
func (d *Dispatcher) WritePieces(ctx context.Context, r Runner, pieces ...Piece) error {
	var list []*item
	for _, p := range pieces {
		list = append(list, &item{
			c: &connection{d: d, runner: r}, job: p.Job, epoch: 1, seq: p.Seq, at: d.Now(), offset: p.Offset, data: []byte(p.Data),
		})
	}
	_, err := d.ingest.writePieces(ctx, list)
	return err
}
