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

// What a request for a certificate may be refused for.
var (
	ErrKey       = errors.New("the key must be Ed25519, ECDSA P-256 or P-384, or RSA of 2048 to 4096 bits")
	ErrSignature = errors.New("the request is not signed with the key that it is for")
)

const (
	pemRequest = "CERTIFICATE REQUEST"

	leastRSA, mostRSA = 2048, 4096
)

// A Request is what counts of a request for a certificate: the public key, whose holder
// has signed it.
type Request struct {
	Key  crypto.PublicKey
	Hash events.KeyHash
}

// ReadRequest reads a request in PEM. What names it asks for counts for nothing.
func ReadRequest(text string) (Request, error) {
	der, err := block(text, pemRequest)
	if err != nil {
		return Request{}, err
	}
	r, err := x509.ParseCertificateRequest(der)
	switch {
	case err != nil:
		return Request{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	case !accepted(r.PublicKey): // before the signature, which of a huge key is costly
		return Request{}, ErrKey
	case r.CheckSignature() != nil:
		return Request{}, ErrSignature
	}
	return Request{Key: r.PublicKey, Hash: sha256.Sum256(r.RawSubjectPublicKeyInfo)}, nil
}

func accepted(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return true
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256() || k.Curve == elliptic.P384()
	case *rsa.PublicKey:
		bits := k.N.BitLen()
		return bits >= leastRSA && bits <= mostRSA
	}
	return false
}
