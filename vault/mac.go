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

// macBytes is the length of what [Ring.MAC] returns: the id of a key and an
// HMAC-SHA256 under a key derived from it. Of that [Ring.ShortMAC] has the first half.
const (
	macBytes      = idBytes + sha256.Size
	shortMACBytes = idBytes + sha256.Size/2
)

// MAC returns what shows that a text was written in a place by who has the
// first key of the ring. The text itself stays readable. As for [Ring.Seal] the
// place is where it is found, and a text that was there before still shows as
// written there.
func (r Ring) MAC(place string, text []byte) ([]byte, error) {
	if len(r.keys) == 0 {
		return nil, fmt.Errorf("authenticate %s: the ring holds no key", place)
	}
	k := r.keys[0]
	return append(k.id[:], k.mac(place, text)...), nil
}

// ShortMAC returns the beginning of [Ring.MAC], for what there is much of: 128 bits
// that nobody can guess.
func (r Ring) ShortMAC(place string, text []byte) ([]byte, error) {
	mac, err := r.MAC(place, text)
	if err != nil {
		return nil, err
	}
	return mac[:shortMACBytes], nil
}

// CheckMAC returns nil if [Ring.MAC] or [Ring.ShortMAC] returned mac for the same
// place and text, under any key of the ring. The error wraps [ErrKeyChanged] or [ErrTampered].
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

// CurrentMAC reports whether mac says that it is under the first key of the ring.
func (r Ring) CurrentMAC(mac []byte) bool {
	return len(r.keys) > 0 && len(mac) == macBytes && keyID(mac[:idBytes]) == r.keys[0].id
}

// newMAC returns what authenticates the length of a place, the place and a text
// under a key. Every event goes through it, so that states are used again.
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
