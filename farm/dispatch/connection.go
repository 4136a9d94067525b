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

// A connection is one of a runner. One goroutine reads, a second one writes.
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

	noting        sync.Mutex // while what the runner took or gave back is noted, here and in the database; before mu
	mu            sync.Mutex
	greeted       bool // hello was answered
	over          bool // it is being closed
	leaves        bool // the runner said goodbye
	labels        []string
	excluded      []string // labels that a job has to ask for
	capacity      int
	blocked       int  // places that the runner does not offer, by its last heartbeat
	draining      bool // it takes no more: asked to by a person, or by itself
	asked, itself bool
	left          *int // jobs that it may take, nil if any number
	jobs          map[events.ID]*held
	untold        []events.ID      // jobs that it was given, and not told of yet
	seen          time.Time        // its last heartbeat, or hello
	hello         aggregates.Hello // as it was said
	late          bool             // not all of that is in the log
	declines      declines
	noted         int // how often that was learned otherwise than by looking it up
}

// held is a job that the runner of a connection has.
type held struct {
	epoch    int
	next     int64 // the number that it says next
	told     int64 // of which gap it was told
	taken    bool  // the runner accepted it
	declined bool  // the runner gives it back, which is not noted yet

	cancelled time.Time // by when it was told that it counts as ended, zero if it was not told to end
}

func newConnection(d *Dispatcher, f *farm, socket *websocket.Conn, r Runner) *connection {
	c := &connection{
		d: d, farm: f, socket: socket, runner: r, id: events.NewID(time.Now()), jobs: map[events.ID]*held{},
		messages: rate.NewLimiter(rate.Limit(d.MessageRate), int(2*d.MessageRate)),
		bytes:    rate.NewLimiter(rate.Limit(d.ByteRate), max(int(d.ByteRate), wire.MaxMessage)),
	}
	c.ctx, c.end = context.WithCancel(d.ctx)
	c.out.wake = make(chan struct{}, 1)
	return c
}

// serve reads until the connection ends, and returns when nothing of it runs any more.
func (c *connection) serve() {
	c.d.counts.connected.Add(1)
	c.farm.add(c)
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.read()
	c.farm.remove(c)
	c.end()
	writing.Wait()
	_ = c.socket.Close() // it may have been cut
	c.d.counts.connected.Add(-1)
}

// read takes frames until none come any more. Those that come after the connection is
// being closed count for nothing: they are only read so that the other side sees why.
func (c *connection) read() {
	c.socket.SetReadLimit(wire.MaxMessage)
	c.socket.SetPongHandler(func(string) error { return c.expect(wire.ReadLimit) })
	if c.expect(wire.HelloLimit) != nil {
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
		case c.closing():
			c.drainFrames()
			return
		}
		if c.expect(wire.ReadLimit) != nil || !c.allow(len(frame)) {
			return
		}
		if why := c.take(kind, frame); why != nil {
			c.refuse(why)
			c.drainFrames()
			return
		}
	}
}

// allow waits until the runner and its workspace may say more: meanwhile nothing is read,
// which the other side notices.
func (c *connection) allow(n int) bool {
	return c.messages.Wait(c.ctx) == nil && c.bytes.WaitN(c.ctx, n) == nil && c.farm.messages.Wait(c.ctx) == nil
}

func (c *connection) expect(within time.Duration) error {
	return c.socket.SetReadDeadline(time.Now().Add(within))
}

const closeWait = 2 * time.Second // for the other side to close too

// drainFrames reads what the other side still says, for a moment: closed with something
// unread, a connection is reset, and the other side may never see the reason.
func (c *connection) drainFrames() {
	_ = c.expect(closeWait)
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

func (c *connection) closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// close says why the connection ends, and lets it end. The first reason counts.
func (c *connection) close(code int, why string) {
	c.mu.Lock()
	was := c.over
	c.over = true
	c.mu.Unlock()
	if !was {
		c.out.close(code, why)
	}
}

// bye tells the runner to come again, and ends the connection.
func (c *connection) bye(after time.Duration) {
	c.send(wire.Closing{ReconnectAfterMs: after.Milliseconds()}, events.ID{}, 0)
	c.close(websocket.CloseServiceRestart, "service restart")
}

// cut ends the connection without a word.
func (c *connection) cut() { _ = c.socket.Close() }

// A violation is a frame that the protocol does not have.
type violation struct {
	code  int    // of the close
	error string // of the message
	text  string
}

func (v *violation) Error() string { return v.text }

func malformed(err error) error {
	return &violation{wire.CloseProtocol, wire.CodeMalformed, err.Error()}
}

// refuse ends the connection because of a frame. What went wrong here is no fault of the
// runner's: it comes again, and says again what was not acknowledged.
func (c *connection) refuse(why error) {
	v, ok := errors.AsType[*violation](why)
	if !ok {
		if c.ctx.Err() == nil {
			c.d.warn("take in a frame", why, "runner", c.runner.ID)
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

// send queues a message.
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
		c.cut() // it does not read
	}
}

// free is how many more jobs the runner takes. The caller has the lock.
func (c *connection) free() int {
	if !c.greeted || c.over || c.draining || c.declines.rests(c.d.Now()) {
		return 0
	}
	n := c.capacity - c.blocked - len(c.jobs) - len(c.untold)
	if c.declines.many() {
		n = min(n, 1-c.unanswered())
	}
	if c.left != nil {
		n = min(n, *c.left)
	}
	return max(n, 0)
}

// forget notes that the runner does not have a job any more.
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

// stop tells the runner that a job is not its own.
func (c *connection) stop(job events.ID, epoch int, why string) {
	c.d.counts.stops.Add(1)
	c.forget(job, epoch)
	if c.stops.Add(1) > maxStops {
		c.refuse(&violation{wire.CloseFlood, wire.CodeFlood, "too many messages of jobs that are not the runner's"})
		return
	}
	c.send(wire.Stop{Reason: why}, job, epoch)
}

// number holds a message of a job against what comes next. gap is the number that should
// have come, 0 if there is none and -1 if the runner was told. A job that nothing is known of passes: the database judges.
func (c *connection) number(job events.ID, epoch int, seq int64) (gap int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.jobs[job]
	if h == nil || h.epoch != epoch {
		return 0
	}
	if seq > h.next {
		if h.told == h.next { // of all that follows the gap one answer is enough
			return -1
		}
		h.told = h.next
		return h.next
	}
	if seq == h.next && h.next < math.MaxInt64 {
		h.next++
	}
	return 0
}

// maxStops is how often a connection is told that a job is not its runner's. One that goes
// on with such jobs is cut off: of each that it had a window of messages may be on its way.
const maxStops = 16 * wire.WindowMessages

// closeNormal is a code that the protocol did not have to invent.
const closeNormal = websocket.CloseNormalClosure
