package wire_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestMessagesRoundTrip(t *testing.T) {
	one := 1
	for _, m := range []wire.Message{
		wire.Hello{Version: "0.4.0", OS: "linux", Arch: "amd64", Capacity: 2,
			Held: []wire.Held{{Job: "a", Epoch: 3, Sent: 17, State: "running"}}},
		wire.Heartbeat{Seq: 4, Free: 1, Held: []wire.Held{{Job: "a", Epoch: 3}}},
		wire.Event{Kind: wire.EventFinished, Outcome: "failed", ExitCode: &one, Log: &wire.LogSum{Bytes: 9, Chunks: 1, SHA256: "00"}},
		wire.Assign{Name: "tests", Steps: []wire.Step{{Name: "test", Run: "go test ./..."}}, Secrets: map[string]string{"A": "b"}},
		wire.Welcome{Connection: "c", Held: []wire.Verdict{{Job: "a", Epoch: 3, Verdict: wire.Done, Acked: 17}}},
		wire.Ack{Upto: 17},
	} {
		frame, err := wire.EncodeFor(m, noon, "a", 3, 17)
		require.NoError(t, err)
		e, err := wire.Decode(frame)
		require.NoError(t, err)
		require.Equal(t, wire.Envelope{Type: m.Type(), At: wire.At(noon), Job: "a", Epoch: 3, Seq: 17, Body: e.Body}, e)
		again, err := readAs(m, e)
		require.NoError(t, err)
		require.Equal(t, m, again)
	}
}

func readAs(like wire.Message, e wire.Envelope) (wire.Message, error) {
	switch like.(type) {
	case wire.Hello:
		return wire.Read[wire.Hello](e)
	case wire.Heartbeat:
		return wire.Read[wire.Heartbeat](e)
	case wire.Event:
		return wire.Read[wire.Event](e)
	case wire.Assign:
		return wire.Read[wire.Assign](e)
	case wire.Welcome:
		return wire.Read[wire.Welcome](e)
	}
	return wire.Read[wire.Ack](e)
}

func TestMalformedMessages(t *testing.T) {
	for name, frame := range map[string]string{
		"nothing": ``, "no JSON": `hello`, "a list": `[]`, "no type": `{"d":{}}`, "negative epoch": `{"t":"job.event","epoch":-1}`,
		"negative number": `{"t":"job.event","seq":-1}`, "a number that is too large": `{"t":"job.event","seq":9223372036854775808}`,
		"one that not all readers know": `{"t":"job.event","seq":9007199254740992}`,
	} {
		_, err := wire.Decode([]byte(frame))
		require.ErrorIs(t, err, wire.ErrFrame, name)
	}
	e, err := wire.Decode([]byte(`{"t":"hello","d":{"capacity":"two"}}`))
	require.NoError(t, err)
	_, err = wire.Read[wire.Hello](e)
	require.ErrorIs(t, err, wire.ErrFrame)
	_, err = wire.Read[wire.Accept](e)
	require.ErrorIs(t, err, wire.ErrFrame, "another type")
}

// The encoding of chunks must not change, since other agents depend on it.
func TestChunkEncoding(t *testing.T) {
	c := wire.Chunk{Job: [16]byte{1, 15: 2}, Epoch: 3, Seq: 17, Offset: 1 << 20, At: noon, Flags: wire.Truncated, Data: []byte("ok\n")}
	frame := c.AppendTo(nil)
	require.Equal(t, "01"+"01"+"00000003"+"0000000000000011"+"0000000000100000"+"000001a1f8d3ea00"+"01000000000000000000000000000002"+
		hex.EncodeToString([]byte("ok\n")), hex.EncodeToString(frame))
	again, err := wire.DecodeChunk(frame)
	require.NoError(t, err)
	require.Equal(t, c, again)
}

func TestMalformedChunks(t *testing.T) {
	good := wire.Chunk{Epoch: 1, Seq: 1, At: noon, Data: []byte("ok")}.AppendTo(nil)
	with := func(at int, b byte) []byte {
		frame := bytes.Clone(good)
		frame[at] = b
		return frame
	}
	for name, frame := range map[string][]byte{
		"nothing": nil, "cut": good[:45], "another version": with(0, 2), "epoch 0": with(5, 0), "a large epoch": with(2, 0xff),
		"number 0": with(13, 0), "a large number": with(7, 0x20), "a large offset": with(15, 0x20), "a late time": with(22, 0x7f),
		"too long": append(bytes.Clone(good), strings.Repeat("x", wire.MaxChunk)...),
	} {
		_, err := wire.DecodeChunk(frame)
		require.ErrorIs(t, err, wire.ErrFrame, name)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"t":"job.event","job":"a","epoch":1,"seq":1,"d":{"kind":"started"}}`))
	f.Add(wire.Chunk{Epoch: 1, Seq: 1, At: noon, Data: []byte("ok")}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if c, err := wire.DecodeChunk(frame); err == nil {
			require.Equal(t, frame, c.AppendTo(nil))
			require.Positive(t, c.Epoch)
		}
		if e, err := wire.Decode(frame); err == nil {
			_, _ = wire.Read[wire.Event](e)
			require.GreaterOrEqual(t, e.Seq, int64(0))
		}
	})
}

func TestTimesHaveThreeDigits(t *testing.T) {
	at := noon.Add(120_456_789).In(time.FixedZone("", 3600))
	frame, err := wire.Encode(wire.Welcome{Connection: "c", ServerTime: wire.At(at)}, at)
	require.NoError(t, err)
	require.Contains(t, string(frame), `"at":"2026-11-20T12:00:00.120Z"`)
	require.Contains(t, string(frame), `"serverTime":"2026-11-20T12:00:00.120Z"`)
	frame, err = wire.Encode(wire.Event{Kind: wire.EventStarted, StartedAt: wire.At(noon)}, noon)
	require.NoError(t, err)
	require.Contains(t, string(frame), `"startedAt":"2026-11-20T12:00:00.000Z"`)
	require.NotContains(t, string(frame), "finishedAt")
}
