package runner

import (
	"time"

	"svc/farm/wire"
)

// read obeys what the service says until the connection ends.
func (c *connection) read() error {
	for {
		e, err := c.receive()
		if err != nil {
			return err
		}
		if err := c.obey(e); err != nil {
			return err
		}
	}
}

// obey handles a message. One of a type that it does not know is of a newer service.
func (c *connection) obey(e wire.Envelope) error {
	k := key{e.Job, e.Epoch}
	switch e.Type {
	case wire.TypeHeartbeatAck:
		return handle(e, c.acked)
	case wire.TypeAssign:
		a, err := wire.Read[wire.Assign](e)
		if err != nil {
			return c.queue(wire.Decline{Reason: declineUnsupported, Text: "the job cannot be read"}, k)
		}
		return c.assigned(k, a)
	case wire.TypeAck:
		return handle(e, func(a wire.Ack) { c.s.ack(k, a.Upto) })
	case wire.TypeCancel:
		return handle(e, func(m wire.Cancel) {
			if j := c.s.get(k); j != nil {
				c.s.log.Info("cancelled", "job", k.name())
				j.order(order{Reason: becauseCancel, Grace: seconds(m.GraceSeconds)})
			}
		})
	case wire.TypeStop:
		return handle(e, func(wire.Stop) { c.s.verdict(wire.Verdict{Job: k.job, Epoch: k.epoch, Verdict: wire.StopJob}, false) })
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
	case wire.TypeUpdate:
		return handle(e, func(u wire.Update) { c.s.log.Info("there is a newer version", "version", u.Version) })
	case wire.TypeError:
		return handle(e, func(m wire.Error) { c.fault(k, m) })
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

// assigned answers in time, whether the job is taken or not.
func (c *connection) assigned(k key, a wire.Assign) error {
	since, fresh := c.fresh()
	lease := wire.LeaseTime
	if a.LeaseSeconds > 0 {
		lease = seconds(a.LeaseSeconds)
	}
	reason, text := c.s.assign(k, a, fresh, since+lease-wire.FenceMargin)
	if reason == "" {
		return c.queue(wire.Accept{}, k)
	}
	c.s.log.Warn("declined", "job", k.name(), "reason", reason, "text", text)
	return c.queue(wire.Decline{Reason: reason, Text: text}, k)
}

// fault rewinds where the service misses a message. Other errors people have to read.
func (c *connection) fault(k key, m wire.Error) {
	j := c.s.get(k)
	switch {
	case m.Code == wire.CodeGap && j != nil && m.Expected > 0:
		j.rewind(m.Expected - 1)
		c.s.ack(k, m.Expected-1)
	case m.Code == wire.CodeUnknown && j != nil:
		c.s.verdict(wire.Verdict{Job: k.job, Epoch: k.epoch, Verdict: wire.StopJob}, false)
	default:
		c.s.log.Error("the service refuses a message", "code", m.Code, "text", m.Message, "job", k.name())
	}
}
