package runner

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

func (f *farm) agent(w http.ResponseWriter, r *http.Request) {
	if !f.certified(w, r) {
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{wire.Version}}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	c := &farmConn{f: f, ws: ws}
	_, frame, err := ws.ReadMessage()
	if err != nil {
		return
	}
	e, err := wire.Decode(frame)
	hello, bad := wire.Read[wire.Hello](e)
	f.mu.Lock()
	if err != nil || bad != nil {
		f.problem("hello: %s", frame)
	}
	f.hellos = append(f.hellos, hello)
	welcome, again := f.welcome(hello)
	f.conns = append(f.conns, c)
	c.send(welcome, attemptKey{})
	for k, spec := range again {
		c.send(spec, k)
	}
	f.mu.Unlock()
	for {
		kind, frame, err := ws.ReadMessage()
		if err != nil {
			return
		}
		c.handleFrame(kind, frame)
	}
}

// welcome returns a verdict on each job in the hello, and the jobs to assign again.
func (f *farm) welcome(h wire.Hello) (wire.Welcome, map[attemptKey]wire.Assign) {
	w := wire.Welcome{Connection: fmt.Sprint(len(f.hellos)), HeartbeatSeconds: 1, LeaseSeconds: 90, ServerTime: wire.At(time.Now())}
	known := map[attemptKey]bool{}
	for _, h := range h.Held {
		k := attemptKey{h.Job, h.Epoch}
		known[k] = true
		j := f.jobs[k]
		v := wire.Verdict{Job: h.Job, Epoch: h.Epoch, Verdict: wire.StopJob}
		switch {
		case j == nil || j.stopped:
		case j.end() != nil:
			v.Verdict, v.Artifacts = wire.Done, !j.complete && j.end().Artifacts > 0
		case j.cancel != nil:
			v.Verdict, v.GraceSeconds = wire.CancelJob, j.cancel.GraceSeconds
		default:
			v.Verdict = wire.Continue
		}
		if j != nil {
			v.Acked = j.last
		}
		w.Held = append(w.Held, v)
	}
	again := map[attemptKey]wire.Assign{}
	for k, j := range f.jobs {
		if _, begun := f.malformed[k]; !begun && !known[k] && j.accepted == 0 && j.end() == nil && !j.stopped && !h.Draining {
			again[k] = j.spec
		}
	}
	if f.changeWelcome != nil {
		f.changeWelcome(&w)
	}
	return w, again
}

func (c *farmConn) send(m wire.Message, k attemptKey) {
	frame, err := wire.EncodeFor(m, time.Now(), k.jobID, k.epoch, 0)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = c.ws.WriteMessage(websocket.TextMessage, frame)
}

// handleFrame handles a frame as the service does: only the next number of a job has an effect.
func (c *farmConn) handleFrame(kind int, frame []byte) {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind == websocket.BinaryMessage {
		chunk, err := wire.DecodeChunk(frame)
		if err != nil {
			f.problem("chunk: %v", err)
			return
		}
		k := attemptKey{events.ID(chunk.Job).String(), chunk.Epoch}
		c.numbered(k, chunk.Seq, func(j *farmJob) {
			if chunk.Offset != int64(len(j.log)) || j.cut {
				f.problem("%v: chunk %d at %d instead of %d", k, chunk.Seq, chunk.Offset, len(j.log))
			}
			j.log = append(j.log, chunk.Data...)
			j.cut = chunk.Flags&wire.Truncated != 0
		})
		return
	}
	e, err := wire.Decode(frame)
	if err != nil {
		f.problem("frame: %v", err)
		return
	}
	k := attemptKey{e.Job, e.Epoch}
	switch e.Type {
	case wire.TypeHeartbeat:
		h, _ := wire.Read[wire.Heartbeat](e)
		f.beats = append(f.beats, h)
		if !f.ignoreHeartbeats {
			c.send(wire.HeartbeatAck{Seq: h.Seq}, attemptKey{})
		}
	case wire.TypeAccept:
		if j := f.jobs[k]; j != nil {
			if j.accepted++; !f.ignoreAccepts {
				c.send(wire.Ack{Upto: j.last}, k)
			}
		}
	case wire.TypeDecline:
		d, _ := wire.Read[wire.Decline](e)
		f.declined = append(f.declined, d)
		delete(f.jobs, k)
	case wire.TypeGoodbye:
		f.goodbyes++
	case wire.TypeEvent:
		event, err := wire.Read[wire.Event](e)
		if err != nil {
			f.problem("event: %v", err)
		}
		if n, ok := f.malformed[k]; ok {
			f.malformed[k] = n + 1
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(wire.CloseProtocol, ""), time.Now().Add(time.Second))
			_ = c.ws.NetConn().Close()
			return
		}
		c.numbered(k, e.Seq, func(j *farmJob) {
			if j.end() != nil {
				f.problem("%v: %s after the end", k, event.Kind)
			}
			j.events = append(j.events, event)
		})
	case wire.TypeDrain:
	default:
		f.problem("message %s", e.Type)
	}
}

func (c *farmConn) numbered(k attemptKey, seq int64, handle func(*farmJob)) {
	j := c.f.jobs[k]
	switch {
	case j == nil || j.stopped:
		c.send(wire.Stop{}, k)
		return
	case seq <= j.last:
		c.f.repeated++
	case seq > j.last+1:
		c.send(wire.Error{Code: wire.CodeGap, Expected: j.last + 1}, k)
		return
	default:
		j.last = seq
		handle(j)
	}
	upto := j.last
	if c.f.ackDelay == nil {
		c.send(wire.Ack{Upto: upto}, k)
		return
	}
	delay := c.f.ackDelay
	go func() { // and out of order
		delay()
		c.send(wire.Ack{Upto: upto}, k)
	}()
}

// assign queues a job, and sends it if a runner is connected.
func (f *farm) assign(spec wire.Assign) attemptKey {
	k := attemptKey{events.NewID(time.Now()).String(), 1}
	f.assignAs(k, spec)
	return k
}

func (f *farm) assignAs(k attemptKey, spec wire.Assign) {
	if spec.Sandbox.Kind == "" {
		spec.Sandbox = wire.Sandbox{Kind: sandbox.None, Network: "host"}
	}
	if spec.LeaseSeconds == 0 {
		spec.LeaseSeconds = 90
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[k] = &farmJob{spec: spec, files: map[string][]byte{}}
	if n := len(f.conns); n > 0 {
		f.conns[n-1].send(spec, k)
	}
}

// send sends a message to the connected runner.
func (f *farm) send(m wire.Message, k attemptKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel, ok := m.(wire.Cancel); ok {
		f.jobs[k].cancel = &cancel
	}
	if n := len(f.conns); n > 0 {
		f.conns[n-1].send(m, k)
	}
}

// cutAll cuts all connections.
func (f *farm) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.ws.NetConn().Close()
	}
	f.conns = nil
}

func (f *farm) close(code int) { f.closeSaying(code, "") }

func (f *farm) closeSaying(code int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second))
		_ = c.ws.NetConn().Close()
	}
	f.conns = nil
}

// with returns a condition on a job, to be checked under the lock.
func (f *farm) with(k attemptKey, condition func(*farmJob) bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.jobs[k] != nil && condition(f.jobs[k])
	}
}

func (f *farm) check(condition func() bool) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return condition()
	}
}

func (f *farm) ended(k attemptKey) wire.Event {
	f.t.Helper()
	require.Eventually(f.t, f.with(k, func(j *farmJob) bool { return j.end() != nil }), waitLimit, 5*time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(f.t, f.problems)
	return *f.jobs[k].end()
}

func (f *farm) log(k attemptKey) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.jobs[k].log)
}

func (f *farm) kinds(k attemptKey) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.jobs[k].events {
		list = append(list, e.Kind)
	}
	return list
}
