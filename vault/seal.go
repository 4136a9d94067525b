// Package vault seals credentials that the service needs in clear later, such as people's
// code host tokens, so that access to the database alone does not disclose them: they open
// only with SVC_VAULT_MASTER_KEY, and only in their own row.
//
// # Format
//
// A sealed value is, in this order:
//
//	 1 byte   format: 1
//	 8 bytes  id of the key that sealed it
//	16 bytes  random salt
//	12 bytes  random nonce
//	 n bytes  the text, encrypted
//	16 bytes  authentication tag
//
// The text is encrypted with AES-256-GCM under its own key: 32 bytes of HKDF-SHA256 with
// the text of the master key as secret, the salt, and the info "svc vault: record".
// Additional data are the first nine bytes and the place, which is not stored. The place
// says where the value is stored, such as "provider_tokens/<user id>/github". A value that
// was copied elsewhere therefore does not open there. An older value of the same place
// does: the vault does not notice that a row was set back.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

var (
	// ErrKeyChanged means that a value was sealed under a key that the ring does not hold.
	// A value whose key id was altered looks the same.
	ErrKeyChanged = errors.New("sealed under a key that SVC_VAULT_MASTER_KEY does not list")

	// ErrTampered means that a value was altered, cut short, moved from another place, or
	// sealed in a format that this build does not know.
	ErrTampered = errors.New("not what was sealed here")
)

const (
	format     = 1
	headBytes  = 1 + idBytes // the start of the additional data
	saltBytes  = 16
	startBytes = headBytes + saltBytes
	extraBytes = 12 + 16 // nonce and tag: the overhead of cipher.NewGCMWithRandomNonce
)

// Seal encrypts plain for place under the first key of the ring. Sealing the same text
// twice gives two different values.
func (r Ring) Seal(place string, plain []byte) ([]byte, error) {
	if len(r.keys) == 0 {
		return nil, fmt.Errorf("seal %s: the ring holds no key", place)
	}
	k := r.keys[0]
	sealed := make([]byte, startBytes, startBytes+extraBytes+len(plain))
	sealed[0] = format
	copy(sealed[1:], k.id[:])
	rand.Read(sealed[headBytes:])
	aead, err := k.aead(sealed[headBytes:])
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", place, err)
	}
	return aead.Seal(sealed, nil, plain, additional(sealed, place)), nil //nolint:gosec // this cipher draws the nonce itself
}

// Open decrypts a value that was sealed for place. The error wraps [ErrKeyChanged] or
// [ErrTampered] and names the place and, for a changed key, the key's id.
func (r Ring) Open(place string, sealed []byte) ([]byte, error) {
	id, err := idOf(sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	k := r.find(id)
	if k == nil {
		return nil, fmt.Errorf("open %s: key %s: %w", place, id, ErrKeyChanged)
	}
	aead, err := k.aead(sealed[headBytes:startBytes])
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	plain, err := aead.Open(nil, nil, sealed[startBytes:], additional(sealed, place))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, ErrTampered)
	}
	return plain, nil
}

// idOf returns the id of the key that sealed a value.
func idOf(sealed []byte) (id keyID, err error) {
	switch {
	case len(sealed) < startBytes+extraBytes:
		return id, fmt.Errorf("%w: %d bytes are too few", ErrTampered, len(sealed))
	case sealed[0] != format:
		return id, fmt.Errorf("%w: format %d is not known", ErrTampered, sealed[0])
	}
	return keyID(sealed[1:headBytes]), nil
}

// seals reports whether a value that opens is sealed under the first key.
func (r Ring) seals(sealed []byte) bool { return keyID(sealed[1:headBytes]) == r.keys[0].id }

// aead returns the cipher of one record.
func (k *key) aead(salt []byte) (cipher.AEAD, error) {
	record, err := hkdf.Key(sha256.New, k.text(), salt, "svc vault: record", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(record)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func additional(sealed []byte, place string) []byte {
	return append(sealed[:headBytes:headBytes], place...)
}
