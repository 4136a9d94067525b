package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrFrame is wrapped by the error about any malformed frame.
var ErrFrame = errors.New("malformed frame")

// An Envelope is a text frame. Messages about a job set Job and Epoch, numbered ones also Seq.
type Envelope struct {
	Type  Type            `json:"t"`
	At    Time            `json:"at,omitzero"` // by the sender's clock
	Job   string          `json:"job,omitempty"`
	Epoch int             `json:"epoch,omitempty"`
	Seq   int64           `json:"seq,omitempty"`
	Body  json.RawMessage `json:"d,omitempty"`
}

// A Time is a time that is encoded in UTC with exactly three digits of a second.
type Time struct{ time.Time }

// At returns t as a Time, cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON encodes t.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// A Message is the body of an envelope.
type Message interface{ Type() Type }

// Encode returns the text frame of a message that is not about a job.
func Encode(m Message, at time.Time) ([]byte, error) { return EncodeFor(m, at, "", 0, 0) }

// EncodeFor returns the text frame of a message about a job. seq is 0 except for an [Event].
func EncodeFor(m Message, at time.Time, job string, epoch int, seq int64) ([]byte, error) {
	body, err := unescapedJSON(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type(), err)
	}
	frame, err := unescapedJSON(Envelope{Type: m.Type(), At: At(at), Job: job, Epoch: epoch, Seq: seq, Body: body})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type(), err)
	}
	return frame, nil
}

// unescapedJSON encodes v without escaping <, > and &. No browser reads the frames, and scripts are
// full of these characters, each of which would take six bytes.
func unescapedJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Decode decodes a text frame. An unknown type is not an error: it belongs to a newer version, and
// the receiver ignores it.
func Decode(frame []byte) (Envelope, error) {
	var e Envelope
	if err := json.Unmarshal(frame, &e); err != nil {
		return e, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	switch {
	case e.Type == "":
		return e, fmt.Errorf("%w: no type", ErrFrame)
	case e.Epoch < 0 || e.Seq < 0 || e.Seq > MaxNumber:
		return e, fmt.Errorf("%w: %s: epoch or seq out of range", ErrFrame, e.Type)
	}
	return e, nil
}

// Read decodes the body of an envelope whose type is M's.
func Read[M Message](e Envelope) (M, error) {
	var m M
	if e.Type != m.Type() {
		return m, fmt.Errorf("%w: %s instead of %s", ErrFrame, e.Type, m.Type())
	}
	if len(e.Body) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(e.Body, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrFrame, e.Type, err)
	}
	return m, nil
}

// A Chunk is a binary frame: a piece of a job's log.
//
// Its layout is, in big endian: version 1 (1 byte), flags (1 byte, see [Chunk.Flags]), epoch (4),
// seq (8), offset (8), time in milliseconds since 1970 (8), job id (16), and the data.
type Chunk struct {
	Job    [16]byte
	Epoch  int
	Seq    int64
	Offset int64 // of the first byte in the epoch's log
	At     time.Time
	Flags  ChunkFlags
	Data   []byte // at most MaxChunk
}

// ChunkFlags are flags of a chunk.
type ChunkFlags byte

// Flags of chunks.
const (
	Truncated ChunkFlags = 1 << iota // the log reached its limit; this is the last chunk
)

const chunkVersion, chunkHead = 1, 1 + 1 + 4 + 8 + 8 + 8 + 16

// AppendTo appends the frame of c to b.
func (c Chunk) AppendTo(b []byte) []byte {
	b = append(b, chunkVersion, byte(c.Flags))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At.UnixMilli()))
	b = append(b, c.Job[:]...)
	return append(b, c.Data...)
}

// DecodeChunk decodes a binary frame. Data aliases frame.
func DecodeChunk(frame []byte) (c Chunk, err error) {
	switch {
	case len(frame) < chunkHead:
		return c, fmt.Errorf("%w: chunk of %d bytes", ErrFrame, len(frame))
	case frame[0] != chunkVersion:
		return c, fmt.Errorf("%w: chunk of version %d", ErrFrame, frame[0])
	case len(frame) > chunkHead+MaxChunk:
		return c, fmt.Errorf("%w: %d bytes of log in a chunk", ErrFrame, len(frame)-chunkHead)
	}
	epoch, seq := binary.BigEndian.Uint32(frame[2:]), binary.BigEndian.Uint64(frame[6:])
	offset, at := binary.BigEndian.Uint64(frame[14:]), binary.BigEndian.Uint64(frame[22:])
	if epoch == 0 || epoch > 1<<30 || seq == 0 || seq > MaxNumber || offset > MaxNumber || at > MaxNumber {
		return c, fmt.Errorf("%w: chunk with a number out of range", ErrFrame)
	}
	c = Chunk{
		Epoch: int(epoch), Seq: int64(seq), Offset: int64(offset), At: time.UnixMilli(int64(at)).UTC(),
		Flags: ChunkFlags(frame[1]), Data: frame[chunkHead:],
	}
	copy(c.Job[:], frame[30:])
	return c, nil
}
