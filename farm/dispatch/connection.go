package dispatch

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"svc/aggregates"
	"svc/events"
	"svc/farm/wire"
)

// A connection is one runner's WebSocket. One goroutine reads from it and another one writes.
type connection struct {
	d      *Dispatcher
	farm   *farm
	socket *websocket.Conn
	runner Runner
	id     events.ID
	out    outbox
	ctx    context.Context // ends with the connection
	end    context.CancelFunc

	messages, bytes *rate.Limiter
	stops           atomic.Int64

	declineMu                sync.Mutex // held while an accept or decline is recorded, here and in the database; locked before mu
	mu                       sync.Mutex
	greeted                  bool // the welcome was sent
	closing                  bool // a close frame is queued
	saidGoodbye              bool // goodbye was received
	labels                   []string
	exclusive                []string // labels that a job must ask for to run here
	capacity                 int
	unoffered                int  // slots that the last heartbeat did not offer
	draining                 bool // it takes no jobs: a person asked for that, or the runner itself
	drainAsked, drainsItself bool
	jobsLeft                 *int // jobs that it may still take, nil if there is no limit
	jobs                     map[events.ID]*assignedJob
	pending                  []events.ID      // jobs leased to it whose assign message is not sent yet
	lastSeen                 time.Time        // time of its last heartbeat or hello
	hello                    aggregates.Hello // as received
	unannounced              bool             // the log does not have all of hello yet
	declines                 declines
	declinesVersion          int // incremented when declines changes other than by a refresh
}

// An assignedJob is a job that the runner of a connection holds.
type assignedJob struct {
	epoch       int
	nextSeq     int64 // number of the next message
	gapReported int64 // value of nextSeq for which a gap was reported last
	accepted    bool  // the runner has accepted it
	declined    bool  // the runner has declined it, which is not recorded yet

	cancelDeadline time.Time // when it is cancelled by force, as the runner was told; zero if it was not told to cancel
}

func newConnection(d *Dispatcher, f *farm, socket *websocket.Conn, r Runner) *connection {
	c := &connection{
		d: d, farm: f, socket: socket, runner: r, id: events.NewID(time.Now()), jobs: map[events.ID]*assignedJob{},
		messages: rate.NewLimiter(rate.Limit(d.MessageRate), int(2*d.MessageRate)),
		bytes:    rate.NewLimiter(rate.Limit(d.ByteRate), max(int(d.ByteRate), wire.MaxMessage)),
	}
	c.ctx, c.end = context.WithCancel(d.ctx)
	c.out.wake = make(chan struct{}, 1)
	return c
}

// serve reads until the connection ends, and returns when its goroutines have ended.
func (c *connection) serve() {
	c.d.counts.connected.Add(1)
	c.farm.add(c)
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.read()
	c.farm.remove(c)
	c.end()
	writing.Wait()
	_ = c.socket.Close() // it may be closed already
	c.d.counts.connected.Add(-1)
}

// read handles frames until the connection ends. Frames that arrive after closing began are
// discarded; they are read only so that the peer receives the close frame.
func (c *connection) read() {
	c.socket.SetReadLimit(wire.MaxMessage)
	c.socket.SetPongHandler(func(string) error { return c.setReadTimeout(wire.ReadTimeout) })
	if c.setReadTimeout(wire.HelloTimeout) != nil {
		return
	}
	for {
		kind, frame, err := c.socket.ReadMessage()
		switch {
		case errors.Is(err, websocket.ErrReadLimit):
			return
		case err != nil:
			if netTimeout(err) && !c.isGreeted() {
				c.close(wire.CloseProtocol, "no hello")
				c.drainFrames()
			}
			return
		case c.isClosing():
			c.drainFrames()
			return
		}
		if c.setReadTimeout(wire.ReadTimeout) != nil || !c.waitForRate(len(frame)) {
			return
		}
		if why := c.handleFrame(kind, frame); why != nil {
			c.refuse(why)
			c.drainFrames()
			return
		}
	}
}

// waitForRate waits until the rate limits of the runner and its workspace admit n more bytes. Nothing is
// read meanwhile, so the peer sees backpressure.
func (c *connection) waitForRate(n int) bool {
	return c.messages.Wait(c.ctx) == nil && c.bytes.WaitN(c.ctx, n) == nil && c.farm.messages.Wait(c.ctx) == nil
}

// setReadTimeout makes reads fail unless something arrives within d.
func (c *connection) setReadTimeout(d time.Duration) error {
	return c.socket.SetReadDeadline(time.Now().Add(d))
}

const closeWait = 2 * time.Second // for the peer's close frame

// drainFrames discards what the peer still sends, for a moment. A socket closed with unread data is
// reset, and the peer might never see the close frame.
func (c *connection) drainFrames() {
	_ = c.setReadTimeout(closeWait)
	for {
		if _, _, err := c.socket.NextReader(); err != nil {
			return
		}
	}
}

func netTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

func (c *connection) isGreeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.greeted
}

func (c *connection) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// close queues a close frame, after which the connection ends. Only the first call has an effect.
func (c *connection) close(code int, why string) {
	c.mu.Lock()
	was := c.closing
	c.closing = true
	c.mu.Unlock()
	if !was {
		c.out.close(code, why)
	}
}

// closeForRestart tells the runner to reconnect after a delay, and closes the connection.
func (c *connection) closeForRestart(after time.Duration) {
	c.send(wire.Closing{ReconnectAfterMs: after.Milliseconds()}, events.ID{}, 0)
	c.close(websocket.CloseServiceRestart, "service restart")
}

// cut ends the connection without a close frame.
func (c *connection) cut() { _ = c.socket.Close() }

// A violation is a breach of the protocol by the runner.
type violation struct {
	code  int    // of the close frame
	error string // code of the error message, "" to send none
	text  string
}

func (v *violation) Error() string { return v.text }

func malformed(err error) error {
	return &violation{wire.CloseProtocol, wire.CodeMalformed, err.Error()}
}

// refuse closes the connection because of a frame. A violation is reported to the runner. Any other
// error is the service's own, so the runner is asked to reconnect and send what was not
// acknowledged again.
func (c *connection) refuse(why error) {
	v, ok := errors.AsType[*violation](why)
	if !ok {
		if c.ctx.Err() == nil {
			c.d.warn("handle a frame", why, "runner", c.runner.ID)
		}
		c.close(websocket.CloseTryAgainLater, "try again")
		return
	}
	if v.error != "" {
		c.send(wire.Error{Code: v.error, Message: v.text, Fatal: true}, events.ID{}, 0)
	}
	c.close(v.code, v.text[:min(len(v.text), maxReason)])
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
		c.cut() // the runner does not read
	}
}

// freeSlots returns how many more jobs the runner takes. The caller holds c.mu.
func (c *connection) freeSlots() int {
	if !c.greeted || c.closing || c.draining || c.declines.inBackoff(c.d.Now()) {
		return 0
	}
	n := c.capacity - c.unoffered - len(c.jobs) - len(c.pending)
	if c.declines.overLimit() {
		n = min(n, 1-c.unanswered())
	}
	if c.jobsLeft != nil {
		n = min(n, *c.jobsLeft)
	}
	return max(n, 0)
}

// forget removes a job that the runner no longer holds, and wakes the farm.
func (c *connection) forget(job events.ID, epoch int) {
	c.mu.Lock()
	h := c.jobs[job]
	gone := h != nil && h.epoch <= epoch
	if gone {
		delete(c.jobs, job)
	}
	c.mu.Unlock()
	if gone {
		c.farm.nudge()
	}
}

// stop tells the runner that a job is not its own. A runner that ignores this too often is
// disconnected.
func (c *connection) stop(job events.ID, epoch int, why string) {
	c.d.counts.stops.Add(1)
	c.forget(job, epoch)
	if c.stops.Add(1) > maxStops {
		c.refuse(&violation{wire.CloseFlood, wire.CodeFlood, "too many messages of jobs that are not the runner's"})
		return
	}
	c.send(wire.Stop{Reason: why}, job, epoch)
}

// checkSeq compares the number of a message with the next expected one. It returns 0 if there is no
// gap, the expected number if there is one, and -1 if this gap was reported already. A message of
// an unknown job passes: the database decides.
func (c *connection) checkSeq(job events.ID, epoch int, seq int64) (gap int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.jobs[job]
	if h == nil || h.epoch != epoch {
		return 0
	}
	if seq > h.nextSeq {
		if h.gapReported == h.nextSeq { // one report per gap is enough
			return -1
		}
		h.gapReported = h.nextSeq
		return h.nextSeq
	}
	if seq == h.nextSeq && h.nextSeq < math.MaxInt64 {
		h.nextSeq++
	}
	return 0
}

// maxStops is how many stop messages a connection gets before it is closed for flooding. Of each
// job that the runner holds, a whole window of messages may still be in flight.
const maxStops = 16 * wire.WindowMessages

// closeNormal is the WebSocket code for a regular end, after goodbye.
const closeNormal = websocket.CloseNormalClosure
