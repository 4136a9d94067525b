package wire_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

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
		fmt.Sprintf("| %d |", wire.CloseFlood), "`" + wire.Version + "`",
		wire.CodeGap, wire.CodeMalformed, wire.CodeFlood, wire.Continue, wire.StopJob, wire.CancelJob, wire.Done,
		wire.EventStarted, wire.EventStepStarted, wire.EventStepFinished, wire.EventNotice, wire.EventFinished,
	} {
		require.Contains(t, page, said)
	}
}

func fields(t *testing.T, of any, text string) {
	t.Helper()
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		require.Contains(t, text, "`"+name+"`", "%T", of)
	}
}
