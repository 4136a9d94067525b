package events

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// An ID is a ULID with the version and variant bits of a UUID, printed in lower case. It
// sorts by creation time, in milliseconds, and is a version 7 UUID (RFC 9562). Early IDs
// have random bits in place of version and variant; they stay as they are, and any 128 bits
// are accepted.
type ID [16]byte

// NewID returns an ID for the time t.
func NewID(t time.Time) ID { return NewIDFrom(t, rand.Reader) }

// NewIDFrom returns an ID for the time t, with random bits from entropy.
func NewIDFrom(t time.Time, entropy io.Reader) ID {
	id := ID(ulid.MustNew(ulid.Timestamp(t), entropy))
	id[6] = 7<<4 | id[6]&0x0f
	id[8] = 0b10<<6 | id[8]&0x3f
	return id
}

// ParseID parses the printed form, in upper or lower case.
func ParseID(s string) (id ID, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, fmt.Errorf("parse id %.40q: want 8-4-4-4-12 hex digits", s)
	}
	_, err = hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:]))
	if err != nil {
		return ID{}, fmt.Errorf("parse id %q: %w", s, err)
	}
	return id, nil
}

// String returns the printed form: "019a9f3e-…", 36 characters.
func (id ID) String() string {
	b, _ := id.MarshalText()
	return string(b)
}

// Time returns when id was created, to the millisecond.
func (id ID) Time() time.Time { return ulid.Time(ulid.ULID(id).Time()).UTC() }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText returns the printed form.
func (id ID) MarshalText() ([]byte, error) {
	b := make([]byte, 36)
	hex.Encode(b, id[:4])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	hex.Encode(b[9:], id[4:6])
	hex.Encode(b[14:], id[6:8])
	hex.Encode(b[19:], id[8:10])
	hex.Encode(b[24:], id[10:])
	return b, nil
}

// UnmarshalText parses the printed form.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}
