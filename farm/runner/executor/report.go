package executor

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"svc/farm/wire"
)

// Kinds of reports. A job's process writes them to its standard output, each as a length (4 bytes,
// big endian), a kind and a body. Events and chunks are spooled unchanged.
const (
	KindEvent    = 'e' // a TimedEvent in JSON
	KindChunk    = 'l' // a chunk, see encodeChunk
	KindManifest = 'm' // a Manifest in JSON
)

const maxReport = 8 << 20

// A TimedEvent is an event as it is reported and spooled.
type TimedEvent struct {
	At    time.Time  `json:"at"`
	Event wire.Event `json:"event"`
}

// A reporter writes reports. It may be used by several goroutines.
type reporter struct {
	mu sync.Mutex
	to io.Writer
}

func (r *reporter) write(kind byte, body []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 5+len(body)), uint32(len(body)))
	frame = append(append(frame, kind), body...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.to.Write(frame); err != nil {
		return fmt.Errorf("report to the supervisor: %w", err)
	}
	return nil
}

func (r *reporter) event(e wire.Event) error { return r.json(KindEvent, NewTimedEvent(e)) }

// NewTimedEvent returns an event that happens now.
func NewTimedEvent(e wire.Event) TimedEvent { return TimedEvent{At: time.Now().UTC(), Event: e} }

func (r *reporter) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("report to the supervisor: %w", err)
	}
	return r.write(kind, body)
}

// ReadReports calls handle with each report until from ends. A truncated report at the end is
// dropped: the process has died.
func ReadReports(from io.Reader, handle func(kind byte, body []byte) error) error {
	in := bufio.NewReaderSize(from, 128<<10)
	var head [5]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil // the process has ended; its status says how
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxReport {
			return fmt.Errorf("report of %d bytes by a job's process", size)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil // as above
		}
		if err := handle(head[4], body); err != nil {
			return err
		}
	}
}

const chunkHead = 8 + 8 + 1

// encodeChunk encodes a chunk for reports and spools: offset, time, flags, data.
func encodeChunk(offset int64, at time.Time, flags wire.ChunkFlags, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, chunkHead+len(data)), uint64(offset))
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
	return append(append(b, byte(flags)), data...)
}

// DecodeChunk decodes a chunk of reports and spools.
func DecodeChunk(b []byte) (c wire.Chunk, err error) {
	if len(b) < chunkHead {
		return c, fmt.Errorf("chunk of %d bytes", len(b))
	}
	c.Offset = int64(binary.BigEndian.Uint64(b))
	c.At = time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))).UTC()
	c.Flags = wire.ChunkFlags(b[16])
	c.Data = b[chunkHead:]
	return c, nil
}
