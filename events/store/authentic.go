package store

import (
	"context"
	"encoding/binary"

	"svc/events"
)

// An Author makes the MACs which show that this service appended an event.
type Author interface {
	ShortMAC(place string, text []byte) ([]byte, error)
}

// eventPlace separates the MACs of events from those of snapshots.
const eventPlace = "events"

// Authenticate makes s store a MAC of each event that it appends. Call it before the first
// Append.
func (s *Store) Authenticate(by Author) { s.author = by }

// Permit makes s call permit before it appends, and before it uses or saves a snapshot. If permit
// returns an error, s stores nothing and returns the error. Call it before the first Append.
func (s *Store) Permit(permit func(context.Context) error) { s.permit = permit }

// A Checker verifies MACs that an [Author] with the same key made.
type Checker interface {
	CheckMAC(place string, text, mac []byte) error
}

// CheckAuthor returns nil if mac proves that a store appended the event.
func CheckAuthor(by Checker, workspace, id, stream events.ID, version, schema int64, kind string, meta, data, mac []byte) error {
	return by.CheckMAC(eventPlace, authenticatedBytes(workspace, id, stream, version, schema, kind, meta, data), mac)
}

// authenticatedBytes returns the bytes of an event that its MAC covers. Seq and time are not covered,
// because the database assigns them; version gives the event's position in its stream, and
// id when it was made. Each text is preceded by its length.
func authenticatedBytes(workspace, id, stream events.ID, version, schema int64, kind string, meta, data []byte) []byte {
	b := make([]byte, 0, 3*16+2*8+3*4+len(kind)+len(meta)+len(data))
	b = append(append(append(b, workspace[:]...), id[:]...), stream[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(version)) // written as two's complement
	b = binary.BigEndian.AppendUint64(b, uint64(schema))
	for _, text := range [][]byte{[]byte(kind), meta, data} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) // PostgreSQL stores no value of 4 GiB
	}
	return b
}
