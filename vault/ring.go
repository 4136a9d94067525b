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
	leastBytes = 32 // of a key's text
	idBytes    = 8
	redacted   = "[redacted]"
)

// A Ring holds the keys of SVC_VAULT_MASTER_KEY: the first seals, all open.
// The zero Ring holds none and fails at both. Printing never shows a key.
type Ring struct{ keys []*key }

// A key's text is inside a function: where fmt cannot call a Ring's methods,
// in an unexported field, it follows even pointers, but prints a function's
// address.
type key struct {
	id   keyID
	text func() []byte
	mac  func(place string, text []byte) []byte
}

// A keyID is derived from a key, names it in rows and errors, and tells
// nothing else about it.
type keyID [idBytes]byte

func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// NewRing takes the keys as SVC_VAULT_MASTER_KEY lists them. White space
// around a key is no part of it; empty keys and repeated ones count for
// nothing, so that "$NEW,$PREVIOUS" works before there is a previous one.
//
// The error says how to make a key, and shows none.
func NewRing(keys []config.Secret) (Ring, error) {
	var ring Ring
	for i, secret := range keys {
		text := strings.TrimSpace(secret.Reveal())
		if text == "" {
			continue
		}
		if len(text) < leastBytes {
			return Ring{}, fmt.Errorf("SVC_VAULT_MASTER_KEY: key %d is shorter than %d bytes; make one with: openssl rand -base64 32",
				i+1, leastBytes)
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

// ids returns the ids of all keys, that of the sealing one first.
func (r Ring) ids() []string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id.String()
	}
	return ids
}

// String returns [redacted].
func (r Ring) String() string { return redacted }

// Format writes [redacted] for every verb that fmt lets a type format.
func (r Ring) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (r Ring) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (r Ring) MarshalText() ([]byte, error) { return []byte(redacted), nil }
