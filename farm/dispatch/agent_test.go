package dispatch_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// An agent is a runner whose messages a test sends one by one.
type agent struct {
	t           testing.TB
	socket      *websocket.Conn
	got         chan wire.Envelope // closed with the connection
	closed      *websocket.CloseError
	assignments []wire.Envelope // assignments received while waiting for something else
}

func dial(t testing.TB, r *replica, workspace, runner events.ID) *agent {
	t.Helper()
	a := dialUnread(t, r, workspace, runner)
	go a.read()
	return a
}

// dialUnread is dial without a reading goroutine.
func dialUnread(t testing.TB, r *replica, workspace, runner events.ID) *agent {
	t.Helper()
	url := "ws" + strings.TrimPrefix(r.server.URL, "http") + "/" + workspace.String() + "/" + runner.String() + "/builder"
	socket, answer, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	socket.SetReadLimit(wire.MaxAssign) // as a runner does
	a := &agent{t: t, socket: socket, got: make(chan wire.Envelope, 1000)}
	t.Cleanup(func() { _ = socket.Close() })
	return a
}

func (a *agent) read() {
	defer close(a.got)
	for {
		_, frame, err := a.socket.ReadMessage()
		if err != nil {
			a.closed, _ = errors.AsType[*websocket.CloseError](err)
			return
		}
		if e, err := wire.Decode(frame); err == nil {
			a.got <- e
		}
	}
}

func (a *agent) send(m wire.Message, job events.ID, epoch int, seq int64) {
	a.t.Helper()
	name := ""
	if !job.IsZero() {
		name = job.String()
	}
	frame, err := wire.EncodeFor(m, time.Now(), name, epoch, seq)
	require.NoError(a.t, err)
	_ = a.socket.WriteMessage(websocket.TextMessage, frame)
}

func (a *agent) chunk(job events.ID, epoch int, seq, offset int64, text string) {
	a.t.Helper()
	c := wire.Chunk{Job: [16]byte(job), Epoch: epoch, Seq: seq, Offset: offset, At: time.Now(), Data: []byte(text)}
	_ = a.socket.WriteMessage(websocket.BinaryMessage, c.AppendTo(nil))
}

// cut ends the connection without a close frame.
func (a *agent) cut() { _ = a.socket.Close() }

// next returns the next message of a type and skips others. Assignments are kept for later: one may
// arrive before the acknowledgement of the message that caused it.
func (a *agent) next(kind wire.Type) wire.Envelope {
	a.t.Helper()
	if kind == wire.TypeAssign && len(a.assignments) > 0 {
		e := a.assignments[0]
		a.assignments = a.assignments[1:]
		return e
	}
	limit := time.After(waitLimit)
	for {
		select {
		case e, ok := <-a.got:
			if !ok {
				require.FailNow(a.t, "the connection is closed", "waiting for %s: %v", kind, a.closed)
			}
			if e.Type == kind {
				return e
			}
			if e.Type == wire.TypeAssign {
				a.assignments = append(a.assignments, e)
			}
		case <-limit:
			require.FailNow(a.t, "not said", string(kind))
		}
	}
}

// closes waits until the connection is closed, and returns the close code.
func (a *agent) closes() int {
	a.t.Helper()
	limit := time.After(waitLimit)
	for {
		select {
		case _, ok := <-a.got:
			if ok {
				continue
			}
			require.NotNil(a.t, a.closed, "it was cut")
			return a.closed.Code
		case <-limit:
			require.FailNow(a.t, "not closed")
		}
	}
}

func body[M wire.Message](t testing.TB, e wire.Envelope) M {
	t.Helper()
	m, err := wire.Read[M](e)
	require.NoError(t, err)
	return m
}

// acked waits for the acknowledgement of a number.
func (a *agent) acked(upto int64) {
	a.t.Helper()
	for body[wire.Ack](a.t, a.next(wire.TypeAck)).Upto < upto {
		continue
	}
}

var hello = wire.Hello{Version: "1", OS: "linux", Arch: "amd64", Capacity: 2, Sandboxes: []string{"none"}}

// greet says hello and returns the welcome.
func (a *agent) greet(held ...wire.Held) wire.Welcome {
	a.t.Helper()
	h := hello
	h.Held = held
	a.send(h, events.ID{}, 0, 0)
	return body[wire.Welcome](a.t, a.next(wire.TypeWelcome))
}

// assigned waits for a job.
func (a *agent) assigned() (events.ID, int, wire.Assign) {
	a.t.Helper()
	e := a.next(wire.TypeAssign)
	job, err := events.ParseID(e.Job)
	require.NoError(a.t, err)
	return job, e.Epoch, body[wire.Assign](a.t, e)
}

func sumOf(text string) *wire.LogSum {
	sum := sha256.Sum256([]byte(text))
	return &wire.LogSum{Bytes: int64(len(text)), Chunks: 1, SHA256: hex.EncodeToString(sum[:])}
}

func finished(log string) wire.Event {
	zero := 0
	return wire.Event{Kind: wire.EventFinished, Outcome: "succeeded", ExitCode: &zero, Log: sumOf(log), CPUMs: 7}
}
