package proof

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/mod/sumdb/tlog"

	"svc/events"
)

// An eventRow is a row of table events, not decoded.
type eventRow struct {
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
	MAC       []byte // of the author; "" in events of older builds; not part of the leaf
	misplaced bool   // set by markMisplaced
}

// eventColumns are the columns of an eventRow, in order.
const eventColumns = `workspace_id, seq, id, stream, version, kind, schema, at, meta, data, mac`

// Leaf returns the leaf of a record: the bytes that the Merkle log covers. r must be as its row was
// read.
func Leaf(r *events.Record) []byte {
	e := eventRow{
		Workspace: r.Workspace, Seq: r.Seq, ID: r.ID, Stream: r.Stream, Version: int64(r.Version),
		Kind: r.Event.Kind(), Schema: int64(r.Schema),
		At: pgtype.Timestamptz{Time: r.At, Valid: true}, Meta: r.Meta, Data: r.Data,
	}
	return e.canonical()
}

// canonical returns the leaf of an event. It can be computed from a row of table events:
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
func (e *eventRow) canonical() []byte {
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

func (e *eventRow) hash() tlog.Hash { return tlog.RecordHash(e.canonical()) }

func field(b, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...) // PostgreSQL values are below 4 GiB
}

func number(b []byte, n int64) []byte {
	return field(b, binary.BigEndian.AppendUint64(nil, uint64(n))) // two's complement
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

// record decodes the event.
func (e *eventRow) record() events.Record {
	r := events.Record{
		Workspace: e.Workspace, Seq: e.Seq, ID: e.ID, Stream: e.Stream, Version: int(e.Version), Schema: int(e.Schema),
		At: e.At.Time, Meta: e.Meta, Data: e.Data,
	}
	return r.Decoded(e.Kind)
}

var errLeaf = errors.New("its leaf is not made of the fields of an event")

// openLeaf decodes the result of canonical.
func openLeaf(leaf []byte) (eventRow, error) {
	f := fields{rest: leaf}
	e := eventRow{
		Workspace: f.id(), Seq: f.number(), ID: f.id(), Stream: f.id(), Version: f.number(), Kind: string(f.next()), Schema: f.number(),
		At: pgtype.Timestamptz{Time: time.UnixMicro(f.number()).UTC(), Valid: true}, Meta: f.next(), Data: f.next(),
	}
	if f.bad || len(f.rest) > 0 {
		return e, errLeaf
	}
	return e, nil
}

// fields reads the fields of a leaf one by one, until one is malformed.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) next() []byte {
	const length = 4
	if len(f.rest) < length || int64(binary.BigEndian.Uint32(f.rest)) > int64(len(f.rest)-length) {
		f.rest, f.bad = nil, true
		return nil
	}
	end := length + int(binary.BigEndian.Uint32(f.rest))
	value := f.rest[length:end]
	f.rest = f.rest[end:]
	return value
}

func (f *fields) number() int64 {
	value := f.next()
	if len(value) != 8 {
		f.bad = true
		return 0
	}
	return int64(binary.BigEndian.Uint64(value)) // two's complement
}

func (f *fields) id() (id events.ID) {
	value := f.next()
	if len(value) != len(id) {
		f.bad = true
	}
	copy(id[:], value)
	return id
}
