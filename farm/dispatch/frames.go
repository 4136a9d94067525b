package dispatch

import (
	"context"
	"fmt"

	"github.com/gorilla/websocket"

	rules "svc/aggregates/farm"
	"svc/events"
	"svc/farm/ingest"
	"svc/farm/wire"
	"svc/fault"
)

// handleFrame handles a frame. An error ends the connection.
func (c *connection) handleFrame(ctx context.Context, kind int, frame []byte) error {
	if kind == websocket.BinaryMessage {
		return c.handleChunk(ctx, frame)
	}
	e, err := wire.Decode(frame)
	if err != nil {
		return malformed(err)
	}
	if greeted := c.presence.isGreeted(); greeted != (e.Type != wire.TypeHello) {
		return malformed(fmt.Errorf("%w: hello comes first, and once", wire.ErrFrame))
	}
	switch e.Type {
	case wire.TypeHello:
		return c.handleHello(ctx, e)
	case wire.TypeHeartbeat:
		return c.handleHeartbeat(ctx, e)
	case wire.TypeAccept, wire.TypeDecline, wire.TypeEvent:
		return c.handleJobMessage(ctx, e)
	case wire.TypeDrain:
		return c.handleDrain(ctx, e)
	case wire.TypeGoodbye:
		return c.handleGoodbye(ctx)
	}
	return nil // a type of a newer protocol version is ignored
}

func (c *connection) handleChunk(ctx context.Context, frame []byte) error {
	chunk, err := wire.DecodeChunk(frame)
	if err != nil {
		return malformed(err)
	}
	if !c.presence.isGreeted() {
		return malformed(fmt.Errorf("%w: hello comes first", wire.ErrFrame))
	}
	return c.putNumbered(ctx, &ingest.Item{
		Job: events.ID(chunk.Job), Epoch: chunk.Epoch, Seq: chunk.Seq, At: rules.ClampRunnerTime(chunk.At, c.d.Now()), Offset: chunk.Offset,
		Truncated: chunk.Flags&wire.Truncated != 0, Data: chunk.Data,
	})
}

func (c *connection) handleJobMessage(ctx context.Context, e wire.Envelope) error {
	job, err := events.ParseID(e.Job)
	switch {
	case err != nil || job.IsZero():
		return malformed(fmt.Errorf("%w: %s without a job", wire.ErrFrame, e.Type))
	case e.Epoch < 1 || e.Epoch > 1<<30:
		return malformed(fmt.Errorf("%w: %s without an epoch", wire.ErrFrame, e.Type))
	}
	it := &ingest.Item{Job: job, Epoch: e.Epoch, Seq: e.Seq}
	switch e.Type {
	case wire.TypeAccept:
		it.Accept = true
		return c.store(ctx, it)
	case wire.TypeDecline:
		body, err := wire.Read[wire.Decline](e)
		if err != nil {
			return malformed(err)
		}
		it.Decline = declineReason(body.Reason)
		c.slots.markDeclined(job, e.Epoch)
		return c.store(ctx, it)
	}
	if e.Seq < 1 {
		return malformed(fmt.Errorf("%w: an event without a number", wire.ErrFrame))
	}
	body, err := wire.Read[wire.Event](e)
	if err != nil {
		return malformed(err)
	}
	if it.Report, err = ingest.ReportOf(e, body); err != nil {
		return malformed(err)
	}
	return c.putNumbered(ctx, it)
}

// putNumbered queues a numbered message for storage. A message after a gap is dropped, and the gap
// reported.
func (c *connection) putNumbered(ctx context.Context, it *ingest.Item) error {
	gap := c.slots.checkSeq(it.Job, it.Epoch, it.Seq)
	if gap > 0 {
		c.Gap(it.Job, it.Epoch, gap)
	}
	if gap != 0 {
		return nil
	}
	return c.store(ctx, it)
}

// store queues a message for storage.
func (c *connection) store(ctx context.Context, it *ingest.Item) error {
	it.From, it.Runner, it.Meta = c, c.runner.ID, c.runner.Meta()
	return c.d.ingest.Put(ctx, it)
}

// Gap tells the runner which number is expected next.
func (c *connection) Gap(job events.ID, epoch int, expected int64) {
	c.send(wire.Error{Code: wire.CodeGap, Message: "a number is missing", Expected: expected}, job, epoch)
}

// handleDrain notes that the runner stops taking jobs, or takes them again.
func (c *connection) handleDrain(ctx context.Context, e wire.Envelope) error {
	m, err := wire.Read[wire.Drain](e)
	if err != nil {
		return malformed(err)
	}
	c.slots.setDrainsItself(!m.End)
	c.farm.wake()
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	_, err = c.d.DB.Exec(ctx, `
		update runner_presence set draining = $4 where workspace_id = $1 and runner_id = $2 and connection_id = $3`,
		c.runner.Workspace, c.runner.ID, c.id, !m.End)
	return fault.Wrap(err, "note that runner %s drains", c.runner.ID)
}

// handleGoodbye marks the runner offline and closes the connection.
func (c *connection) handleGoodbye(ctx context.Context) error {
	c.presence.leave()
	c.slots.setDrainsItself(true)
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	if err := c.announceOffline(ctx); err != nil {
		return err
	}
	return &ending{code: closeNormal, text: "goodbye"}
}

// declineReason returns the reason for declining that is recorded: "other" if it is not a known
// one.
func declineReason(reason string) string {
	switch reason {
	case "busy", "unsupported", "disk_full", "draining":
		return reason
	}
	return "other"
}
