package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"svc/events"
	"svc/farm/wire"
)

// A connection is one runner's WebSocket.
//
// # Concurrency
//
// Two goroutines belong to a connection. The reader runs serve: it handles one frame after another
// (handleFrame and everything below it) and alone uses in. The writer runs out.run. Methods are also
// called by the farm's goroutine, which leases and delivers jobs; by the ingest lanes, which answer
// messages of jobs; by the heartbeatWriter; and by Dispatcher.Close.
//
// What they share is in four parts. Each has its own lock, and only its own methods take it:
//
//   - out has the frames to write. Nothing follows the close frame.
//   - slots has the jobs that occupy the runner, and what else limits how many it gets.
//   - presence has what the runner said about itself, and whether the log knows it.
//   - backoff has the runner's declines. Its second lock, recording, is held during a statement, so
//     that memory and database see accepts and declines in the same order.
//
// No lock is held while another part's is taken, except that recording is held while slots and
// backoff change. What depends on several parts reads them one after the other, in the order
// that freeSlots explains. The other fields do not change, apart from the counter stops.
type connection struct {
	d      *Dispatcher
	farm   *farm
	runner Runner
	id     events.ID

	in       frameReader
	out      outbox
	slots    slots
	presence presence
	backoff  backoff

	stops atomic.Int64 // stop messages sent
}

func newConnection(d *Dispatcher, f *farm, socket *websocket.Conn, r Runner) *connection {
	c := &connection{
		d: d, farm: f, runner: r, id: events.NewID(time.Now()),
		in: newFrameReader(&d.Config, socket, f.messages), out: newOutbox(socket), slots: newSlots(),
	}
	socket.SetPongHandler(func(string) error { return c.handlePong() })
	return c
}

// handlePong extends the time for the next frame, but neither that for the hello nor that for the
// peer's close frame.
func (c *connection) handlePong() error {
	if !c.presence.isGreeted() || c.out.isClosing() {
		return nil
	}
	return c.in.setTimeout(wire.ReadTimeout)
}

// serve reads until the connection ends, and returns when its goroutines have ended.
func (c *connection) serve() {
	ctx, end := context.WithCancel(c.d.ctx)
	defer end()
	c.d.counts.connected.Add(1)
	c.farm.add(c)
	select {
	case <-c.d.stopping: // Close may have listed the connections before
		c.closeForRestart(0)
	default:
	}
	var writing sync.WaitGroup
	writing.Go(func() { c.out.run(ctx, c.wakeIfPending) })
	c.read(ctx)
	c.farm.remove(c)
	end()
	writing.Wait()
	c.out.cut() // it may be closed already
	c.d.counts.connected.Add(-1)
}

// read handles frames until the connection ends. Frames that arrive after closing began are
// discarded; they are read only so that the peer receives the close frame.
func (c *connection) read(ctx context.Context) {
	if c.in.setTimeout(wire.HelloTimeout) != nil {
		return
	}
	for {
		kind, frame, err := c.in.next()
		switch {
		case errors.Is(err, websocket.ErrReadLimit):
			return
		case err != nil:
			if isTimeout(err) && !c.presence.isGreeted() {
				c.out.close(wire.CloseProtocol, "no hello")
				c.in.drain()
			}
			return
		case c.out.isClosing():
			c.in.drain()
			return
		}
		if c.in.setTimeout(wire.ReadTimeout) != nil || !c.in.waitForRate(ctx, len(frame)) {
			return
		}
		if why := c.handleFrame(ctx, kind, frame); why != nil {
			c.closeFor(ctx, why)
			c.in.drain()
			return
		}
	}
}

// wakeIfPending wakes the farm if jobs wait for room in the outbox.
func (c *connection) wakeIfPending() {
	if len(c.slots.pendingJobs()) > 0 {
		c.farm.wake()
	}
}

// closeForRestart tells the runner to reconnect after a delay, and closes the connection.
func (c *connection) closeForRestart(after time.Duration) {
	c.send(wire.Closing{ReconnectAfterMs: after.Milliseconds()}, events.ID{}, 0)
	c.out.close(websocket.CloseServiceRestart, "service restart")
}

// An ending is the reason for which the service closes a connection, as an error.
type ending struct {
	code  int    // of the close frame
	error string // code of the error message if the runner broke the protocol, "" to send none
	text  string
}

func (e *ending) Error() string { return e.text }

func malformed(err error) *ending {
	return &ending{wire.CloseProtocol, wire.CodeMalformed, err.Error()}
}

// closeFor closes the connection because of an error in a frame. An error that is no ending is the
// service's own, so the runner is asked to reconnect and send what was not acknowledged again.
func (c *connection) closeFor(ctx context.Context, why error) {
	if e, ok := errors.AsType[*ending](why); ok {
		c.end(e)
		return
	}
	if ctx.Err() == nil {
		c.d.warn("handle a frame", why, "runner", c.runner.ID)
	}
	c.Retry()
}

// end closes the connection, and tells the runner first what it did wrong, if it did.
func (c *connection) end(e *ending) {
	if e.error != "" {
		c.send(wire.Error{Code: e.error, Message: e.text, Fatal: true}, events.ID{}, 0)
	}
	c.out.close(e.code, e.text[:min(len(e.text), maxReason)])
}

const maxReason = 100 // bytes; a close frame has room for 123

// send queues a message, and cuts the connection if the outbox is full.
func (c *connection) send(m wire.Message, job events.ID, epoch int) {
	name := ""
	if !job.IsZero() {
		name = job.String()
	}
	frame, err := wire.EncodeFor(m, c.d.Now(), name, epoch, 0)
	if err != nil {
		c.d.warn("encode a message", err)
		return
	}
	if !c.out.put(frame) {
		c.out.cut() // the runner does not read
	}
}

// freeSlots returns the state of the slots, and how many more jobs the runner takes. It reads slots before backoff: a declined
// job is forgotten after its decline is noted, so whoever sees its slot free sees the backoff too.
func (c *connection) freeSlots() (u slotUsage, free int) {
	u = c.slots.usage()
	if !c.presence.isGreeted() || c.out.isClosing() {
		return u, 0
	}
	return u, c.backoff.limit(u, c.d.Now())
}

// Forget removes a job that the runner no longer holds, and wakes the farm.
func (c *connection) Forget(job events.ID, epoch int) {
	if c.slots.forget(job, epoch) {
		c.farm.wake()
	}
}

// Stop tells the runner that a job is not its own. A runner that ignores this too often is
// disconnected.
func (c *connection) Stop(job events.ID, epoch int, why string) {
	c.d.counts.stops.Add(1)
	c.Forget(job, epoch)
	if c.stops.Add(1) > maxStops {
		c.end(&ending{wire.CloseFlood, wire.CodeFlood, "too many messages of jobs that are not the runner's"})
		return
	}
	c.send(wire.Stop{Reason: why}, job, epoch)
}

// Acknowledge tells the runner that its messages of a job up to a number are stored.
func (c *connection) Acknowledge(job events.ID, epoch int, upto int64) {
	c.send(wire.Ack{Upto: upto}, job, epoch)
}

// Malformed closes the connection because of what a message says.
func (c *connection) Malformed(err error) { c.end(malformed(err)) }

// Retry closes the connection, so that the runner sends again what was not acknowledged.
func (c *connection) Retry() { c.out.close(websocket.CloseTryAgainLater, "try again") }

// maxStops is how many stop messages a connection gets before it is closed for flooding. Of each
// job that the runner holds, a whole window of messages may still be in flight.
const maxStops = 16 * wire.WindowMessages

// closeNormal is the WebSocket code for a regular end, after goodbye.
const closeNormal = websocket.CloseNormalClosure
