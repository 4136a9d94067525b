package store

import (
	"encoding/binary"

	"svc/events"
)

// An Author shows that an event was appended by this service.
type Author interface {
	ShortMAC(place string, text []byte) ([]byte, error)
}

// authorPlace is what events are authenticated for, beside snapshots.
const authorPlace = "events"

// Authenticate lets s append each event with what shows that it did. Call it
// before the first Append.
func (s *Store) Authenticate(by Author) { s.author = by }

// A Checker tells whether an [Author] with the same key wrote a text.
type Checker interface {
	CheckMAC(place string, text, mac []byte) error
}

// CheckAuthor returns nil if mac shows that a store appended the event.
func CheckAuthor(by Checker, workspace, id, stream events.ID, version, schema int64, kind string, meta, data, mac []byte) error {
	return by.CheckMAC(authorPlace, authored(workspace, id, stream, version, schema, kind, meta, data), mac)
}

// authored returns what is authenticated of an event. Its number and its time are
// not among it, which the database gives it; its version says where it is in its
// stream, and its id when it was made. Texts are preceded by their length.
func authored(workspace, id, stream events.ID, version, schema int64, kind string, meta, data []byte) []byte {
	b := make([]byte, 0, 3*16+2*8+3*4+len(kind)+len(meta)+len(data))
	b = append(append(append(b, workspace[:]...), id[:]...), stream[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(version)) // two's complement is what is written
	b = binary.BigEndian.AppendUint64(b, uint64(schema))
	for _, text := range [][]byte{[]byte(kind), meta, data} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...) // PostgreSQL keeps no value of 4 GiB
	}
	return b
}
