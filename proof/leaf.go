package proof

import (
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// A stored is a row of events as it is in the table, undecoded.
type stored struct {
	Workspace events.ID
	Seq       int64
	ID        events.ID
	Stream    events.ID
	Version   int64
	Kind      string
	Schema    int64
	At        pgtype.Timestamptz // a damaged row may say infinity
	Meta      []byte
	Data      []byte
}

// storedColumns are those of stored, in its order.
const storedColumns = `workspace_id, seq, id, stream, version, kind, schema, at, meta, data`

// canonical returns the bytes of an event that the Merkle log speaks for. Whoever
// has a row of events can make them again:
//
//	workspace  16 bytes
//	seq         8 bytes
//	id         16 bytes
//	stream     16 bytes
//	version     8 bytes
//	kind        its UTF-8 text
//	schema      8 bytes
//	at          8 bytes: microseconds since 1970-01-01T00:00:00Z
//	meta        the stored JSON text, byte for byte
//	data        the stored JSON text, byte for byte
//
// in this order, each preceded by its length in bytes as 4 bytes. Numbers are
// big-endian, in two's complement; ids are the 16 bytes that their printed form
// spells in hexadecimal.
//
// The hash of the leaf is that of RFC 6962, SHA-256 of a zero byte and these.
func (e *stored) canonical() []byte {
	b := make([]byte, 0, 10*4+3*16+4*8+len(e.Kind)+len(e.Meta)+len(e.Data))
	b = field(b, e.Workspace[:])
	b = number(b, e.Seq)
	b = field(b, e.ID[:])
	b = field(b, e.Stream[:])
	b = number(b, e.Version)
	b = field(b, []byte(e.Kind))
	b = number(b, e.Schema)
	b = number(b, micros(e.At))
	b = field(b, e.Meta)
	return field(b, e.Data)
}

func (e *stored) hash() tlog.Hash { return tlog.RecordHash(e.canonical()) }

func field(b, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...) //nolint:gosec // PostgreSQL keeps no value of 4 GiB
}

func number(b []byte, n int64) []byte {
	return field(b, binary.BigEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // two's complement is what is written
}

func micros(at pgtype.Timestamptz) int64 {
	switch at.InfinityModifier {
	case pgtype.Infinity:
		return math.MaxInt64
	case pgtype.NegativeInfinity:
		return math.MinInt64
	}
	return at.Time.UnixMicro()
}
