package dispatch

import (
	"fmt"

	"github.com/gorilla/websocket"

	"svc/aggregates"
	"svc/events"
	"svc/farm/wire"
)

// take takes in a frame, or returns why the connection ends.
func (c *connection) take(kind int, frame []byte) error {
	if kind == websocket.BinaryMessage {
		return c.takeChunk(frame)
	}
	e, err := wire.Decode(frame)
	if err != nil {
		return malformed(err)
	}
	if greeted := c.isGreeted(); greeted != (e.Type != wire.TypeHello) {
		return malformed(fmt.Errorf("%w: hello comes first, and once", wire.ErrFrame))
	}
	switch e.Type {
	case wire.TypeHello:
		return c.takeHello(e)
	case wire.TypeHeartbeat:
		return c.takeHeartbeat(e)
	case wire.TypeAccept, wire.TypeDecline, wire.TypeEvent:
		return c.takeOfJob(e)
	case wire.TypeDrain:
		return c.takeDrain(e)
	case wire.TypeGoodbye:
		return c.takeGoodbye()
	}
	return nil // of a newer version
}

func (c *connection) takeChunk(frame []byte) error {
	chunk, err := wire.DecodeChunk(frame)
	if err != nil {
		return malformed(err)
	}
	if !c.isGreeted() {
		return malformed(fmt.Errorf("%w: hello comes first", wire.ErrFrame))
	}
	return c.numbered(&item{
		job: events.ID(chunk.Job), epoch: chunk.Epoch, seq: chunk.Seq, at: aggregates.ClampRunnerTime(chunk.At, c.d.Now()), offset: chunk.Offset,
		truncated: chunk.Flags&wire.Truncated != 0, data: chunk.Data,
	})
}

func (c *connection) takeOfJob(e wire.Envelope) error {
	job, err := events.ParseID(e.Job)
	switch {
	case err != nil || job.IsZero():
		return malformed(fmt.Errorf("%w: %s of no job", wire.ErrFrame, e.Type))
	case e.Epoch < 1 || e.Epoch > 1<<30:
		return malformed(fmt.Errorf("%w: %s of no epoch", wire.ErrFrame, e.Type))
	}
	it := &item{c: c, job: job, epoch: e.Epoch, seq: e.Seq}
	switch e.Type {
	case wire.TypeAccept:
		it.accept = true
		return c.d.ingest.put(c.ctx, it)
	case wire.TypeDecline:
		body, err := wire.Read[wire.Decline](e)
		if err != nil {
			return malformed(err)
		}
		it.decline = reasonOf(body.Reason)
		return c.d.ingest.put(c.ctx, it)
	}
	if e.Seq < 1 {
		return malformed(fmt.Errorf("%w: an event without a number", wire.ErrFrame))
	}
	body, err := wire.Read[wire.Event](e)
	if err != nil {
		return malformed(err)
	}
	if it.report, err = reportOf(e, body); err != nil {
		return malformed(err)
	}
	return c.numbered(it)
}

// numbered takes in what has a number. One after a gap is not stored.
func (c *connection) numbered(it *item) error {
	gap := c.number(it.job, it.epoch, it.seq)
	if gap > 0 {
		c.gap(it.job, it.epoch, gap)
	}
	if gap != 0 {
		return nil
	}
	it.c = c
	return c.d.ingest.put(c.ctx, it)
}

// gap tells the runner which number has to come next.
func (c *connection) gap(job events.ID, epoch int, expected int64) {
	c.send(wire.Error{Code: wire.CodeGap, Message: "a number is missing", Expected: expected}, job, epoch)
}

// reasonOf returns a reason for declining as it is kept.
func reasonOf(said string) string {
	switch said {
	case "busy", "unsupported", "disk_full", "draining":
		return said
	}
	return "other"
}
