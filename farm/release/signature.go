package release

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
)

// ErrSignature says that none of the given keys signed a text.
var ErrSignature = errors.New("none of the keys made the signature")

func sign(message []byte, key ed25519.PrivateKey) []byte {
	return []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(key, message)) + "\n")
}

// checkSignature returns nil if signature, in base64, is a signature of message by one of keys.
func checkSignature(message, signature []byte, keys []ed25519.PublicKey) error {
	sig, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(signature)))
	if err != nil || len(sig) != ed25519.SignatureSize {
		return errors.New("the signature is not 64 bytes in base64")
	}
	if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool {
		return len(k) == ed25519.PublicKeySize && ed25519.Verify(k, message, sig)
	}) {
		return ErrSignature
	}
	return nil
}
