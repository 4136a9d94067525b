package runner

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

// What a job's process says on its standard output: frames of a length (4 bytes, big
// endian), a kind and a body. Events and chunks go into the spool as they are.
const (
	kindEvent    = 'e' // a spooled
	kindChunk    = 'l' // a chunk, see encodeChunk
	kindManifest = 'm' // the files that are to be uploaded
)

const maxReport = 8 << 20

// A spooled is an event as it is kept.
type spooled struct {
	At    time.Time  `json:"at"`
	Event wire.Event `json:"event"`
}

// A reporter writes frames. It may be used by several goroutines.
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

func (r *reporter) event(e wire.Event) error { return r.json(kindEvent, newSpooled(e)) }

func newSpooled(e wire.Event) spooled { return spooled{At: time.Now().UTC(), Event: e} }

func (r *reporter) json(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("report to the supervisor: %w", err)
	}
	return r.write(kind, body)
}

// reports calls take with each frame until from ends. What is cut off at the end is left out:
// the process has died.
func reports(from io.Reader, take func(kind byte, body []byte) error) error {
	in := bufio.NewReaderSize(from, 128<<10)
	var head [5]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil // the process has ended, of which its status tells
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > maxReport {
			return fmt.Errorf("report of %d bytes by a job's process", size)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil // the same
		}
		if err := take(head[4], body); err != nil {
			return err
		}
	}
}

const chunkHead = 8 + 8 + 1

// encodeChunk is the form of a chunk in reports and spools: offset, time, flags, bytes.
func encodeChunk(offset int64, at time.Time, flags wire.ChunkFlags, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, chunkHead+len(data)), uint64(offset))
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
	return append(append(b, byte(flags)), data...)
}

func decodeChunk(b []byte) (c wire.Chunk, err error) {
	if len(b) < chunkHead {
		return c, fmt.Errorf("chunk of %d bytes", len(b))
	}
	c.Offset = int64(binary.BigEndian.Uint64(b))
	c.At = time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))).UTC()
	c.Flags = wire.ChunkFlags(b[16])
	c.Data = b[chunkHead:]
	return c, nil
}
