package vault

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"
)

// macBytes is the length of what [Ring.MAC] returns: the id of a key and an HMAC-SHA256
// under a key derived from it. [Ring.ShortMAC] returns the id and half of the HMAC.
const (
	macBytes      = idBytes + sha256.Size
	shortMACBytes = idBytes + sha256.Size/2
)

// MAC returns a code which proves that a holder of the ring's first key wrote text in
// place. The text stays readable. As for [Ring.Seal], place says where the text is stored,
// and an older text from the same place is still valid there.
func (r Ring) MAC(place string, text []byte) ([]byte, error) {
	if len(r.keys) == 0 {
		return nil, fmt.Errorf("authenticate %s: the ring holds no key", place)
	}
	k := r.keys[0]
	return append(k.id[:], k.mac(place, text)...), nil
}

// ShortMAC returns a shorter [Ring.MAC] for data of which there is much: 128 bits that
// cannot be guessed.
func (r Ring) ShortMAC(place string, text []byte) ([]byte, error) {
	mac, err := r.MAC(place, text)
	if err != nil {
		return nil, err
	}
	return mac[:shortMACBytes], nil
}

// CheckMAC returns nil if [Ring.MAC] or [Ring.ShortMAC] returned mac for the same place and
// text, under any key of the ring. Otherwise the error wraps [ErrKeyChanged] or
// [ErrTampered].
func (r Ring) CheckMAC(place string, text, mac []byte) error {
	if len(mac) != macBytes && len(mac) != shortMACBytes {
		return fmt.Errorf("check %s: %w: an authentication code of %d bytes", place, ErrTampered, len(mac))
	}
	id := keyID(mac[:idBytes])
	k := r.find(id)
	if k == nil {
		return fmt.Errorf("check %s: key %s: %w", place, id, ErrKeyChanged)
	}
	if !hmac.Equal(k.mac(place, text)[:len(mac)-idBytes], mac[idBytes:]) {
		return fmt.Errorf("check %s: %w", place, ErrTampered)
	}
	return nil
}

// CurrentMAC reports whether mac names the first key of the ring and has full length.
func (r Ring) CurrentMAC(mac []byte) bool {
	return len(r.keys) > 0 && len(mac) == macBytes && keyID(mac[:idBytes]) == r.keys[0].id
}

// newMAC returns a function that computes the HMAC of a place's length, the place and a
// text. Hash states are pooled, because it is called for every event.
func newMAC(key string) (func(place string, text []byte) []byte, error) {
	derived, err := hkdf.Key(sha256.New, []byte(key), nil, "svc vault: mac", sha256.Size)
	if err != nil {
		return nil, err
	}
	states := sync.Pool{New: func() any { return hmac.New(sha256.New, derived) }}
	return func(place string, text []byte) []byte {
		h := states.Get().(hash.Hash)
		defer states.Put(h)
		h.Reset()
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(place)))) // places are short
		h.Write([]byte(place))
		h.Write(text)
		return h.Sum(nil)
	}, nil
}
