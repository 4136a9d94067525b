package vault

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// macBytes is the length of what [Ring.MAC] returns: the id of a key and an
// HMAC-SHA256 under a key derived from it.
const macBytes = idBytes + sha256.Size

// MAC returns what shows that a text was written in a place by who has the
// first key of the ring. The text itself stays readable. As for [Ring.Seal] the
// place is where it is found, and a text that was there before still shows as
// written there.
func (r Ring) MAC(place string, text []byte) ([]byte, error) {
	if len(r.keys) == 0 {
		return nil, fmt.Errorf("authenticate %s: the ring holds no key", place)
	}
	k := r.keys[0]
	sum, err := k.mac(place, text)
	if err != nil {
		return nil, fmt.Errorf("authenticate %s: %w", place, err)
	}
	return append(k.id[:], sum...), nil
}

// CheckMAC returns nil if [Ring.MAC] returned mac for the same place and text,
// under any key of the ring. The error wraps [ErrKeyChanged] or [ErrTampered].
func (r Ring) CheckMAC(place string, text, mac []byte) error {
	if len(mac) != macBytes {
		return fmt.Errorf("check %s: %w: an authentication code of %d bytes", place, ErrTampered, len(mac))
	}
	id := keyID(mac[:idBytes])
	k := r.find(id)
	if k == nil {
		return fmt.Errorf("check %s: key %s: %w", place, id, ErrKeyChanged)
	}
	sum, err := k.mac(place, text)
	switch {
	case err != nil:
		return fmt.Errorf("check %s: %w", place, err)
	case !hmac.Equal(sum, mac[idBytes:]):
		return fmt.Errorf("check %s: %w", place, ErrTampered)
	}
	return nil
}

// CurrentMAC reports whether mac says that it is under the first key of the ring.
func (r Ring) CurrentMAC(mac []byte) bool {
	return len(r.keys) > 0 && len(mac) == macBytes && keyID(mac[:idBytes]) == r.keys[0].id
}

// mac authenticates the length of the place, the place and the text.
func (k *key) mac(place string, text []byte) ([]byte, error) {
	derived, err := hkdf.Key(sha256.New, k.text(), nil, "svc vault: mac", sha256.Size)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, derived)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(place)))) //nolint:gosec // places are short
	h.Write([]byte(place))
	h.Write(text)
	return h.Sum(nil), nil
}
