package runner

import (
	"time"

	"svc/farm/runner/executor"
	"svc/farm/wire"
)

// read handles messages of the service until the connection ends.
func (c *connection) read() error {
	for {
		e, err := c.receive()
		if err != nil {
			return err
		}
		if err := c.handleMessage(e); err != nil {
			return err
		}
	}
}

// handleMessage handles one message. An unknown type belongs to a newer service and is ignored.
func (c *connection) handleMessage(e wire.Envelope) error {
	k := attemptKey{e.Job, e.Epoch}
	switch e.Type {
	case wire.TypeHeartbeatAck:
		return handle(e, c.handleHeartbeatAck)
	case wire.TypeAssign:
		a, err := wire.Read[wire.Assign](e)
		if err != nil {
			return c.queue(wire.Decline{Reason: declineUnsupported, Text: "the job cannot be read"}, k)
		}
		return c.handleAssign(k, a)
	case wire.TypeAck:
		return handle(e, func(a wire.Ack) {
			if j := c.s.heldJob(k); j != nil {
				j.noteAccepted()
			}
			c.s.ack(k, a.Upto)
		})
	case wire.TypeCancel:
		return handle(e, func(m wire.Cancel) {
			if j := c.s.heldJob(k); j != nil {
				c.s.log.Info("cancelled", "job", k.name())
				j.sendOrder(executor.StopOrder{Reason: executor.ReasonCancel, Grace: time.Duration(m.GraceSeconds) * time.Second})
			}
		})
	case wire.TypeStop:
		return handle(e, func(wire.Stop) {
			c.s.applyVerdict(wire.Verdict{Job: k.jobID, Epoch: k.epoch, Verdict: wire.StopJob}, false)
		})
	case wire.TypeDrain:
		return handle(e, func(d wire.Drain) {
			c.s.log.Info("drain", "on", !d.End)
			c.s.drain(drainedByService, !d.End)
		})
	case wire.TypeClosing:
		return handle(e, func(m wire.Closing) {
			select {
			case c.closing <- time.Duration(m.ReconnectAfterMs) * time.Millisecond:
			default:
			}
		})
	case wire.TypeError:
		return handle(e, func(m wire.Error) { c.handleError(k, m) })
	}
	return nil
}

func handle[M wire.Message](e wire.Envelope, do func(M)) error {
	m, err := wire.Read[M](e)
	if err != nil {
		return err
	}
	do(m)
	return nil
}

// handleAssign answers an assign message with an accept or a decline. An accepted job begins when
// the service has acknowledged that.
func (c *connection) handleAssign(k attemptKey, a wire.Assign) error {
	since, fresh := c.fresh()
	lease := wire.LeaseTime
	if a.LeaseSeconds > 0 {
		lease = time.Duration(a.LeaseSeconds) * time.Second
	}
	reason, text := c.s.assign(k, a, fresh, since+lease-wire.FenceMargin)
	if reason == "" {
		return c.queue(wire.Accept{}, k)
	}
	c.s.log.Warn("declined", "job", k.name(), "reason", reason, "text", text)
	return c.queue(wire.Decline{Reason: reason, Text: text}, k)
}

// handleError rewinds sending after a gap. Other errors are logged.
func (c *connection) handleError(k attemptKey, m wire.Error) {
	j := c.s.heldJob(k)
	if m.Code == wire.CodeGap && j != nil && m.Expected > 0 {
		j.rewind(m.Expected - 1)
		c.s.ack(k, m.Expected-1)
		return
	}
	c.s.log.Error("the service refuses a message", "code", m.Code, "text", m.Message, "job", k.name())
}
