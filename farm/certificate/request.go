package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"

	"svc/events"
)

// Errors of [ReadRequest], beside those of [Parse].
var (
	ErrKey       = errors.New("the key must be Ed25519, ECDSA P-256 or P-384, or RSA of 2048 to 4096 bits")
	ErrSignature = errors.New("the request is not signed with the key that it is for")
)

const (
	pemRequest = "CERTIFICATE REQUEST"

	minRSABits, maxRSABits = 2048, 4096
)

// A Request is the used part of a certificate request: the public key, whose holder has signed it.
type Request struct {
	Key  crypto.PublicKey
	Hash events.KeyHash
}

// ReadRequest parses a certificate request in PEM and checks its signature. The names in it are
// ignored.
func ReadRequest(text string) (Request, error) {
	der, err := decodePEM(text, pemRequest)
	if err != nil {
		return Request{}, err
	}
	r, err := x509.ParseCertificateRequest(der)
	switch {
	case err != nil:
		return Request{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case !isAcceptedKey(r.PublicKey): // before the signature, which is costly to check with a huge key
		return Request{}, ErrKey
	case r.CheckSignature() != nil:
		return Request{}, ErrSignature
	}
	return Request{Key: r.PublicKey, Hash: sha256.Sum256(r.RawSubjectPublicKeyInfo)}, nil
}

func isAcceptedKey(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return true
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256() || k.Curve == elliptic.P384()
	case *rsa.PublicKey:
		bits := k.N.BitLen()
		return bits >= minRSABits && bits <= maxRSABits
	}
	return false
}
