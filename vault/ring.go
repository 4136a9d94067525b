package vault

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"svc/config"
)

const (
	minKeyBytes = 32 // of a key's text
	idBytes     = 8
	redacted    = "[redacted]"
)

// A Ring holds the keys of SVC_VAULT_MASTER_KEY: the first one seals, all of them open. The
// zero Ring holds none and fails at both. It never prints a key.
type Ring struct{ keys []*key }

// A key holds its text in a closure. If a Ring is in an unexported field, fmt cannot call
// its methods and prints its contents, following pointers; of a function it prints only the
// address.
type key struct {
	id   keyID
	text func() []byte
	mac  func(place string, text []byte) []byte
}

// A keyID is derived from a key and identifies it in rows and errors. It discloses nothing
// else about the key.
type keyID [idBytes]byte

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// NewRing returns a ring of the keys listed in SVC_VAULT_MASTER_KEY. White space around a
// key is ignored, and so are empty and repeated keys, so that "$NEW,$PREVIOUS" works before
// there is a previous key.
//
// The error says how to generate a key, and contains none.
func NewRing(keys []config.Secret) (Ring, error) {
	var ring Ring
	for i, secret := range keys {
		text := strings.TrimSpace(secret.Reveal())
		if text == "" {
			continue
		}
		if len(text) < minKeyBytes {
			return Ring{}, fmt.Errorf("SVC_VAULT_MASTER_KEY: key %d is shorter than %d bytes; make one with: openssl rand -base64 32",
				i+1, minKeyBytes)
		}
		k, err := newKey(text)
		if err != nil {
			return Ring{}, fmt.Errorf("SVC_VAULT_MASTER_KEY: key %d: %w", i+1, err)
		}
		if ring.find(k.id) == nil {
			ring.keys = append(ring.keys, k)
		}
	}
	if len(ring.keys) == 0 {
		return Ring{}, errors.New("SVC_VAULT_MASTER_KEY holds no key; make one with: openssl rand -base64 32")
	}
	return ring, nil
}

func newKey(text string) (*key, error) {
	id, err := hkdf.Key(sha256.New, []byte(text), nil, "svc vault: key id", idBytes)
	if err != nil {
		return nil, err
	}
	mac, err := newMAC(text)
	return &key{keyID(id), func() []byte { return []byte(text) }, mac}, err
}

// find returns the key with an id, or nil.
func (r Ring) find(id keyID) *key {
	for _, k := range r.keys {
		if k.id == id {
			return k
		}
	}
	return nil
}

// ids returns the ids of all keys, starting with the one that seals.
func (r Ring) ids() []string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id.String()
	}
	return ids
}

// sealedID is the SQL expression of the id in the column sealed, by which a value opens. The column key_id is only
// shown: somebody could have changed it.
const sealedID = `substr(sealed, 2, 8)`

// sealedIDs returns the ids of all keys as sealedID, starting with the one that seals.
func (r Ring) sealedIDs() [][]byte {
	ids := make([][]byte, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id[:]
	}
	return ids
}

// String returns [redacted].
func (r Ring) String() string { return redacted }

// Format writes [redacted] for every verb.
func (r Ring) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (r Ring) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (r Ring) MarshalText() ([]byte, error) { return []byte(redacted), nil }
