package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"svc/farm/wire"
)

// controls is how many control messages wait for the writer. More than that means that
// the connection takes none, and it is given up.
const controls = 64

var (
	errStuck = errors.New("the connection takes nothing")
	errLeft  = errors.New("said goodbye")
)

// A connection is one WebSocket, from hello on. One goroutine reads, one writes, one
// puts heartbeats into the writer's queue.
type connection struct {
	s       *Supervisor
	ws      *websocket.Conn
	control chan []byte
	closing chan time.Duration // the service ends: when to come again

	mu      sync.Mutex
	seq     int64
	beats   map[int64]beat // heartbeats that are not acknowledged
	freshAt time.Duration  // when the last acknowledged one was sent, or the hello
}

// A beat is what a heartbeat promised, and when it was sent.
type beat struct {
	at   time.Duration
	jobs []*job
}

// connect holds one connection until it ends. after is how long to stay away, if the
// service has said so; welcomed is whether it had begun.
func (s *Supervisor) connect(ctx context.Context) (welcomed bool, after time.Duration, err error) {
	s.mu.Lock()
	address := s.identity.AgentURL
	s.mu.Unlock()
	ws, err := s.link.dial(ctx, address)
	if err != nil {
		return false, 0, err
	}
	defer ws.Close()
	c := &connection{s: s, ws: ws, control: make(chan []byte, controls), closing: make(chan time.Duration, 1), beats: map[int64]beat{}}
	ws.SetReadLimit(wire.MaxAssign)
	ws.SetPingHandler(c.pong)
	welcome, err := c.greet()
	if err != nil {
		return false, 0, err
	}
	s.update(func() { s.connected, s.lastError = time.Now(), "" })
	defer s.update(func() { s.connected = time.Time{} })
	s.log.Info("connected", "connection", welcome.Connection)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(c.read)
	g.Go(func() error { return c.write(ctx) })
	g.Go(func() error { return c.beat(ctx, seconds(max(welcome.HeartbeatSeconds, 1))) })
	g.Go(func() error {
		<-ctx.Done()
		_ = ws.Close() // wakes the reader
		return ctx.Err()
	})
	err = g.Wait()
	select {
	case after = <-c.closing:
	default:
	}
	return true, after, err
}

// greet says hello and hears what to do with what is held.
func (c *connection) greet() (w wire.Welcome, err error) {
	s := c.s
	hello := wire.Hello{
		Version: Version, OS: runtime.GOOS, Arch: runtime.GOARCH, Capacity: s.cfg.Capacity, Labels: s.identity.Labels,
		Sandboxes: s.sandboxes, BootID: bootID(), Draining: s.drainingHere(),
	}
	for _, j := range s.list() {
		j.set(func() { j.admitted = false })
		if len(hello.Held) < wire.MaxHeld {
			hello.Held = append(hello.Held, j.held())
			hello.SpoolBytes += j.spool.Bytes()
		}
	}
	c.freshAt = s.cfg.Boot()
	frame, err := wire.Encode(hello, time.Now())
	if err != nil {
		return w, err
	}
	if err := c.send(websocket.TextMessage, frame); err != nil {
		return w, err
	}
	e, err := c.receive()
	if err != nil {
		return w, err
	}
	if e.Type == wire.TypeError {
		refused, _ := wire.Read[wire.Error](e)
		return w, fmt.Errorf("hello: %s: %s", refused.Code, refused.Message)
	}
	if w, err = wire.Read[wire.Welcome](e); err != nil {
		return w, err
	}
	s.welcomed(w)
	return w, nil
}

// drainingHere reports whether this side drains; that the service asked for it, it knows.
func (s *Supervisor) drainingHere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains[drainedHere] || s.drains[drainedToStop]
}

func (s *Supervisor) welcomed(w wire.Welcome) {
	s.update(func() {
		l := &s.limits
		for _, v := range []struct {
			to   *int64
			from int64
		}{
			{&l.LogBytesPerJob, w.Limits.LogBytesPerJob}, {&l.WindowBytes, w.Limits.WindowBytes},
			{&l.ArtifactMaxJobBytes, w.Limits.ArtifactMaxJobBytes},
		} {
			if v.from > 0 {
				*v.to = v.from
			}
		}
		if w.Limits.WindowMessages > 0 {
			l.WindowMessages = w.Limits.WindowMessages
		}
		if w.LeaseSeconds > 0 {
			s.lease = seconds(w.LeaseSeconds)
		}
	})
	s.drain(drainedByService, w.Draining)
	for _, v := range w.Held {
		s.verdict(v, true)
	}
}

// pong answers a ping, which also shows that the connection lives.
func (c *connection) pong(data string) error {
	_ = c.ws.SetReadDeadline(time.Now().Add(wire.ReadLimit)) // of a closed one reading tells
	err := c.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(wire.WriteLimit))
	if errors.Is(err, websocket.ErrCloseSent) {
		return nil
	}
	return err
}

// receive reads the next text frame. The service sends no other.
func (c *connection) receive() (wire.Envelope, error) {
	for {
		_ = c.ws.SetReadDeadline(time.Now().Add(wire.ReadLimit)) // the same
		kind, frame, err := c.ws.ReadMessage()
		if err != nil {
			return wire.Envelope{}, fmt.Errorf("read: %w", err)
		}
		if kind == websocket.TextMessage {
			return wire.Decode(frame)
		}
	}
}

func (c *connection) send(kind int, frame []byte) error {
	if err := c.ws.SetWriteDeadline(time.Now().Add(wire.WriteLimit)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := c.ws.WriteMessage(kind, frame); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// queue hands a control message to the writer.
func (c *connection) queue(m wire.Message, k key) error {
	frame, err := wire.EncodeFor(m, time.Now(), k.job, k.epoch, 0)
	if err != nil {
		return err
	}
	select {
	case c.control <- frame:
		return nil
	default:
		return errStuck
	}
}

// write sends control messages first, and then what jobs have to say, one message of each
// job after the other.
func (c *connection) write(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case frame := <-c.control:
			if err := c.send(websocket.TextMessage, frame); err != nil {
				return err
			}
			continue
		default:
		}
		sent, err := c.turn(ctx)
		if err != nil {
			return err
		}
		if sent {
			continue
		}
		if c.s.leaving() {
			return c.leave()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case frame := <-c.control:
			if err := c.send(websocket.TextMessage, frame); err != nil {
				return err
			}
		case <-c.s.wake:
		}
	}
}

// turn sends at most one message of each job.
func (c *connection) turn(ctx context.Context) (sent bool, err error) {
	c.s.mu.Lock()
	limits := c.s.limits
	c.s.mu.Unlock()
	for _, j := range c.s.list() {
		if ctx.Err() != nil || len(c.control) > 0 {
			return true, nil // there is something that goes first
		}
		seq, ok := j.next(limits)
		if !ok {
			continue
		}
		frame, binary, err := j.frame(seq)
		if err != nil {
			c.s.unreadable(j, err)
			continue
		}
		kind := websocket.TextMessage
		if binary {
			kind = websocket.BinaryMessage
		}
		j.flew(seq, len(frame))
		if err := c.send(kind, frame); err != nil {
			return false, err
		}
		sent = true
	}
	return sent, nil
}

// unreadable gives up a job of which the disk has lost what was said: the lease ends, and
// the service gives it to another runner.
func (s *Supervisor) unreadable(j *job, err error) {
	if errors.Is(err, errGone) {
		return // acknowledged meanwhile
	}
	s.log.Error("spool", "job", j.name(), "err", err)
	s.owned.Go(func() { s.drop(j) })
}

// leave says goodbye and closes the connection in order.
func (c *connection) leave() error {
	frame, err := wire.Encode(wire.Goodbye{}, time.Now())
	if err == nil {
		err = c.send(websocket.TextMessage, frame)
	}
	if err == nil {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		err = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(wire.WriteLimit))
	}
	if err != nil {
		return fmt.Errorf("say goodbye: %w", err)
	}
	return errLeft
}
