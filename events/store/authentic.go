package store

import (
	"context"
	"encoding/binary"
	"errors"

	"svc/events"
)

// An Authenticator proves that this service wrote a text in a certain place, with a key
// that the database does not have.
type Authenticator interface {
	MAC(place string, text []byte) ([]byte, error)
	// ShortMAC is MAC for what is stored in great numbers.
	ShortMAC(place string, text []byte) ([]byte, error)
	CheckMAC(place string, text, mac []byte) error
	// CurrentMAC reports whether mac is under the key that MAC uses.
	CurrentMAC(mac []byte) bool
}

// eventPlace separates the MACs of events from those of snapshots.
const eventPlace = "events"

// Authenticate makes s store a MAC of each event that it appends. Call it before the first
// Append.
func (s *Store) Authenticate(by Authenticator) { s.author = by }

// Permit makes s call permit before it appends, and before it uses or saves a snapshot. If permit
// returns an error, s stores nothing and returns the error. Call it before the first Append.
func (s *Store) Permit(permit func(context.Context) error) { s.permit = permit }

// ErrForeign says that an event was neither appended nor signed by this service.
var ErrForeign = errors.New("was not appended by this service")

// CheckEventMAC returns nil if mac proves that a store appended the event.
func CheckEventMAC(
	by Authenticator, workspace, id, stream events.ID, version, schema int64, kind string, meta, data, mac []byte,
) error {
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
