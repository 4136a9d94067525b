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

// maxControls is how many control messages may wait for the writer. If more do, the connection is
// stuck and given up.
const maxControls = 128

var (
	errWriterStuck = errors.New("the connection accepts no data")
	errGoodbye     = errors.New("said goodbye")
)

// A connection is one WebSocket, from the hello on. One goroutine reads, one writes, and one queues
// heartbeats.
type connection struct {
	s       *Supervisor
	ws      *websocket.Conn
	control chan []byte
	closing chan time.Duration // receives the delay before reconnecting, when the service shuts down

	mu         sync.Mutex
	seq        int64
	heartbeats map[int64]sentHeartbeat // unacknowledged heartbeats, by number
	ackedAt    time.Duration           // when the last acknowledged heartbeat, or the hello, was sent
}

// A sentHeartbeat is when a heartbeat was sent, and the jobs that it listed.
type sentHeartbeat struct {
	at   time.Duration
	jobs []*job
}

// connect holds one connection until it ends. after is how long to stay away if the service said
// so. welcomed reports whether the service had accepted the connection.
func (s *Supervisor) connect(ctx context.Context) (welcomed bool, after time.Duration, err error) {
	s.mu.Lock()
	address := s.identity.AgentURL
	s.mu.Unlock()
	ws, err := s.farm.Dial(ctx, address)
	if err != nil {
		return false, 0, err
	}
	defer ws.Close()
	c := &connection{
		s: s, ws: ws, control: make(chan []byte, maxControls), closing: make(chan time.Duration, 1), heartbeats: map[int64]sentHeartbeat{},
	}
	ws.SetReadLimit(wire.MaxAssign)
	ws.SetPingHandler(c.pong)
	welcome, err := c.exchangeHello()
	if err != nil {
		return false, 0, err
	}
	s.update(func() { s.connected, s.lastError = time.Now(), "" })
	defer s.update(func() { s.connected = time.Time{} })
	s.log.Info("connected", "connection", welcome.Connection)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(c.read)
	g.Go(func() error { return c.write(ctx) })
	g.Go(func() error { return c.heartbeatLoop(ctx, time.Duration(max(welcome.HeartbeatSeconds, 1))*time.Second) })
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

// exchangeHello sends the hello and applies the service's welcome.
func (c *connection) exchangeHello() (w wire.Welcome, err error) {
	s := c.s
	s.mu.Lock()
	labels := s.identity.Labels
	s.mu.Unlock()
	hello := wire.Hello{
		Version: Version, OS: runtime.GOOS, Arch: runtime.GOARCH, Capacity: s.cfg.Capacity, Labels: labels,
		Sandboxes: s.sandboxes, BootID: bootID(), Draining: s.drainingHere(),
	}
	var unlisted []*job
	for _, j := range s.jobsToList() {
		j.update(func() { j.maySend = false })
		if len(hello.Held) == wire.MaxHeld {
			unlisted = append(unlisted, j)
			continue
		}
		hello.Held = append(hello.Held, j.held())
		hello.SpoolBytes += j.spool.Bytes()
	}
	c.ackedAt = s.cfg.BootTime()
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
	s.applyWelcome(w)
	for _, j := range unlisted {
		j.resendEnd()
	}
	return w, c.repeatAccepts()
}

// repeatAccepts sends the accepts again that the service has not acknowledged.
func (c *connection) repeatAccepts() error {
	for _, j := range c.s.heldJobs() {
		if j.awaitsAccept() {
			if err := c.queue(wire.Accept{}, j.attemptKey); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainingHere reports whether this side drains. The service's own wish it knows already.
func (s *Supervisor) drainingHere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains[drainedHere] || s.drains[drainedToStop]
}

func (s *Supervisor) applyWelcome(w wire.Welcome) {
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
			s.lease = time.Duration(w.LeaseSeconds) * time.Second
		}
	})
	s.drain(drainedByService, w.Draining)
	for _, v := range w.Held {
		s.applyVerdict(v, true)
	}
}

// pong answers a ping, and extends the read deadline.
func (c *connection) pong(data string) error {
	_ = c.ws.SetReadDeadline(time.Now().Add(wire.ReadTimeout)) // if the connection is closed, the next read fails
	err := c.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(wire.WriteTimeout))
	if errors.Is(err, websocket.ErrCloseSent) {
		return nil
	}
	return err
}

// receive reads the next text frame. The service sends no binary ones.
func (c *connection) receive() (wire.Envelope, error) {
	for {
		_ = c.ws.SetReadDeadline(time.Now().Add(wire.ReadTimeout)) // as in pong
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
	if err := c.ws.SetWriteDeadline(time.Now().Add(wire.WriteTimeout)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := c.ws.WriteMessage(kind, frame); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// queue passes a control message to the writer.
func (c *connection) queue(m wire.Message, k attemptKey) error {
	frame, err := wire.EncodeFor(m, time.Now(), k.jobID, k.epoch, 0)
	if err != nil {
		return err
	}
	select {
	case c.control <- frame:
		return nil
	default:
		return errWriterStuck
	}
}

// write sends control messages first, and then the messages of jobs in turn.
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
		sent, err := c.sendRound(ctx)
		if err != nil {
			return err
		}
		if sent {
			continue
		}
		if c.s.leaving() {
			return c.sayGoodbye()
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

// sendRound sends at most one message of each job.
func (c *connection) sendRound(ctx context.Context) (sent bool, err error) {
	c.s.mu.Lock()
	limits := c.s.limits
	c.s.mu.Unlock()
	for _, j := range c.s.heldJobs() {
		if ctx.Err() != nil || len(c.control) > 0 {
			return true, nil // control messages go first
		}
		seq, ok := j.nextToSend(limits)
		if !ok {
			continue
		}
		frame, binary, err := j.frame(seq)
		if err != nil {
			c.s.dropUnreadable(j, err)
			continue
		}
		kind := websocket.TextMessage
		if binary {
			kind = websocket.BinaryMessage
		}
		j.noteSent(seq, len(frame))
		if err := c.send(kind, frame); err != nil {
			return false, err
		}
		sent = true
	}
	return sent, nil
}

// dropUnreadable drops a job whose spool cannot be read. Its lease expires, and the service gives
// it to another runner.
func (s *Supervisor) dropUnreadable(j *job, err error) {
	if errors.Is(err, errGone) {
		return // acknowledged meanwhile
	}
	s.log.Error("read spool", "job", j.name(), "err", err)
	s.inBackground(func(context.Context) { s.drop(j) })
}

// sayGoodbye sends a goodbye and closes the connection.
func (c *connection) sayGoodbye() error {
	frame, err := wire.Encode(wire.Goodbye{}, time.Now())
	if err == nil {
		err = c.send(websocket.TextMessage, frame)
	}
	if err == nil {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		err = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(wire.WriteTimeout))
	}
	if err != nil {
		return fmt.Errorf("say goodbye: %w", err)
	}
	return errGoodbye
}
