package wire_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

// PROTOCOL.md, the page for authors of other agents, names every message, field, limit and code.
func TestProtocolPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("PROTOCOL.md")
	require.NoError(t, err)
	page := string(text)
	rows := map[string]string{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.Trim(cells[1], " `")] = cells[3]
		}
	}
	messages := []wire.Message{
		wire.Hello{}, wire.Heartbeat{}, wire.Accept{}, wire.Decline{}, wire.Event{}, wire.Goodbye{}, wire.Welcome{}, wire.HeartbeatAck{},
		wire.Assign{},
		wire.Ack{}, wire.Cancel{}, wire.Stop{}, wire.Closing{}, wire.Error{}, wire.Drain{},
	}
	for _, m := range messages {
		row, ok := rows[string(m.Type())]
		require.True(t, ok, "no row of %s", m.Type())
		fields(t, m, row)
	}
	fields(t, wire.Envelope{}, page)
	fields(t, wire.Held{}, page)
	fields(t, wire.Verdict{}, page)
	for _, said := range []any{
		fmt.Sprintf("| %d, %d |", wire.MaxMessage, wire.MaxAssign), fmt.Sprintf("| %d, %d |", wire.MaxChunk, wire.MaxLog),
		fmt.Sprintf("| %d |", wire.MaxHeld),
		fmt.Sprintf("| %d, %d |", wire.WindowMessages, wire.WindowBytes), fmt.Sprintf("`hello` | %s |", wire.HelloTimeout),
		fmt.Sprintf("| %s, %s |", wire.HeartbeatEvery, wire.PingEvery), fmt.Sprintf("| %s |", wire.ReadTimeout),
		fmt.Sprintf("answer | %s |", wire.AcceptTimeout),
		fmt.Sprintf("stalled | %s |", wire.StalledAfter), fmt.Sprintf("| %s, %s |", wire.LeaseTime, wire.FenceMargin),
		fmt.Sprintf("| %d |", wire.CloseRevoked), fmt.Sprintf("| %d |", wire.CloseSuperseded), fmt.Sprintf("| %d |", wire.CloseProtocol),
		fmt.Sprintf("| %d |", wire.CloseExpired), fmt.Sprintf("| %d |", wire.CloseFlood), "`" + wire.Version + "`",
		wire.CodeGap, wire.CodeMalformed, wire.CodeFlood, wire.Continue, wire.StopJob, wire.CancelJob, wire.Done,
		wire.EventStarted, wire.EventStepStarted, wire.EventStepFinished, wire.EventNotice, wire.EventFinished,
	} {
		require.Contains(t, page, said)
	}
}

// The exchange on the page is one: every line is a frame exactly as this package encodes it, each side
// sends only its own messages, the numbers have no gap, and the log is as its summary says.
func TestExampleOfProtocolPage(t *testing.T) {
	text, err := os.ReadFile("PROTOCOL.md")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "## An example")
	require.True(t, ok)
	lines := strings.Split(strings.TrimSpace(strings.Split(example, "```")[1]), "\n")
	x := exchange{t: t}
	for _, line := range lines {
		side, frame, _ := strings.Cut(line, " ")
		if binary, err := hex.DecodeString(frame); err == nil {
			require.Equal(t, "→", side)
			x.chunk(binary)
			continue
		}
		e, err := wire.Decode([]byte(frame))
		require.NoError(t, err, frame)
		x.text(side, e, frame)
	}
	require.Equal(t, []wire.Type{
		wire.TypeHello, wire.TypeWelcome, wire.TypeHeartbeat, wire.TypeHeartbeatAck, wire.TypeAssign, wire.TypeAccept,
		wire.TypeAck, wire.TypeEvent, wire.TypeEvent, wire.TypeEvent, wire.TypeAck, wire.TypeEvent, wire.TypeEvent, wire.TypeAck,
	}, x.types)
	require.Equal(t, []string{
		wire.EventStarted, wire.EventCheckedOut, wire.EventStepStarted, wire.EventStepFinished, wire.EventFinished,
	}, x.kinds)
	sum := sha256.Sum256(x.log)
	require.Equal(t, &wire.LogSum{Bytes: int64(len(x.log)), Chunks: x.chunks, SHA256: hex.EncodeToString(sum[:])}, x.summary)
	require.Equal(t, x.seq, x.acked, "everything is stored")
}

// An exchange is what was read of an example.
type exchange struct {
	t          *testing.T
	types      []wire.Type
	kinds      []string // of events
	job        string
	seq, acked int64
	log        []byte
	chunks     int64
	summary    *wire.LogSum
	before     time.Time
}

func (x *exchange) number(seq int64, at time.Time) {
	require.Equal(x.t, x.seq+1, seq)
	x.seq = seq
	x.clock(at)
}

func (x *exchange) clock(at time.Time) {
	require.False(x.t, at.Before(x.before), at)
	x.before = at
}

func (x *exchange) chunk(frame []byte) {
	c, err := wire.DecodeChunk(frame)
	require.NoError(x.t, err)
	require.Equal(x.t, frame, c.AppendTo(nil))
	require.Equal(x.t, strings.ReplaceAll(x.job, "-", ""), hex.EncodeToString(c.Job[:]))
	require.EqualValues(x.t, len(x.log), c.Offset)
	x.number(c.Seq, c.At)
	x.log, x.chunks = append(x.log, c.Data...), x.chunks+1
}

// text checks a text frame: read as its type and encoded again it is the same.
func (x *exchange) text(side string, e wire.Envelope, frame string) {
	x.types = append(x.types, e.Type)
	if e.Type == wire.TypeAssign {
		x.job = e.Job
	}
	require.Equal(x.t, x.job, e.Job)
	if e.Seq > 0 {
		x.number(e.Seq, e.At.Time)
	} else {
		x.clock(e.At.Time)
	}
	again := func(from string, m wire.Message, err error) {
		require.NoError(x.t, err)
		require.Equal(x.t, from, side, e.Type)
		encoded, err := wire.EncodeFor(m, e.At.Time, e.Job, e.Epoch, e.Seq)
		require.NoError(x.t, err)
		require.Equal(x.t, string(encoded), frame)
	}
	switch e.Type {
	case wire.TypeHello:
		m, err := wire.Read[wire.Hello](e)
		again("→", m, err)
	case wire.TypeWelcome:
		m, err := wire.Read[wire.Welcome](e)
		again("←", m, err)
	case wire.TypeHeartbeat:
		m, err := wire.Read[wire.Heartbeat](e)
		again("→", m, err)
	case wire.TypeHeartbeatAck:
		m, err := wire.Read[wire.HeartbeatAck](e)
		again("←", m, err)
	case wire.TypeAssign:
		m, err := wire.Read[wire.Assign](e)
		again("←", m, err)
	case wire.TypeAccept:
		m, err := wire.Read[wire.Accept](e)
		again("→", m, err)
	case wire.TypeEvent:
		m, err := wire.Read[wire.Event](e)
		again("→", m, err)
		x.kinds, x.summary = append(x.kinds, m.Kind), m.Log
	case wire.TypeAck:
		m, err := wire.Read[wire.Ack](e)
		again("←", m, err)
		x.acked = m.Upto
	default:
		require.Fail(x.t, "not of the example", string(e.Type))
	}
}

func fields(t *testing.T, of any, text string) {
	t.Helper()
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		require.Contains(t, text, "`"+name+"`", "%T", of)
	}
}
