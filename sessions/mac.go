package sessions

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"svc/events"
)

// mac returns the authentication code of a session's row. It covers what never changes: the hash
// of the token, the person and the start. Whoever can write to the table, but does not have Secret,
// can therefore not make a session another person's.
func (s *Store) mac(hash []byte, user events.ID, createdAt time.Time) []byte {
	key, err := hkdf.Key(sha256.New, s.Secret, nil, "svc session rows", sha256.Size)
	if err != nil {
		panic(fmt.Errorf("derive key of session rows: %w", err)) // only for a longer key
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(hash) // all parts have a fixed length
	mac.Write(user[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(createdAt.UnixMicro())))
	return mac.Sum(nil)
}

// authentic reports whether this service, with this Secret, wrote the row of a session.
func (s *Store) authentic(session *Session) bool {
	return hmac.Equal(session.mac, s.mac(session.hash, session.User, session.CreatedAt))
}
