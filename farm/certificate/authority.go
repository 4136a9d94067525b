package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"svc/events"
)

// An Authority signs the certificates of a workspace's runners.
type Authority struct {
	ID          events.ID
	Certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority makes the authority of a workspace, with a key of its own.
func NewAuthority(workspace, id events.ID, at time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of authority %s: %w", id, err)
	}
	template := authorityTemplate(workspace, id, at)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of authority %s: %w", id, err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate of authority %s: %w", id, err)
	}
	return &Authority{id, c, key}, nil
}

func authorityTemplate(workspace, id events.ID, at time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(id[:]),
		Subject:      pkix.Name{CommonName: "svc farm authority " + id.String(), Organization: []string{"workspace " + workspace.String()}},
		NotBefore:    at.Add(-skew), NotAfter: at.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
}

// OpenAuthority returns the authority of a certificate in PEM and the key that
// [Authority.Key] returned.
func OpenAuthority(text string, key []byte) (*Authority, error) {
	c, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read certificate of authority: %w", err)
	}
	opened, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("read key of authority: it is none") // err may quote it
	}
	signer, ok := opened.(crypto.Signer)
	if public, isECDSA := c.PublicKey.(*ecdsa.PublicKey); !ok || !isECDSA || !public.Equal(signer.Public()) {
		return nil, errors.New("read key of authority: it is that of another certificate")
	}
	return &Authority{idOf(c), c, signer}, nil
}

// idOf returns the id of the authority that a certificate is of.
func idOf(c *x509.Certificate) (id events.ID) {
	if b := c.SerialNumber.Bytes(); len(b) <= len(id) {
		copy(id[len(id)-len(b):], b)
	}
	return id
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() string { return encode(a.Certificate.Raw) }

// Key returns the key, to be sealed.
func (a *Authority) Key() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(a.key) }

// Next returns what a certificate that is issued at a time would be: with a random
// serial number.
func Next(authority events.ID, key events.KeyHash, at time.Time) events.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x3f | 0x40 // positive, and always as long
	at = at.UTC().Truncate(time.Second)
	return events.Certificate{
		Authority: authority, Serial: hex.EncodeToString(serial), Key: key, NotBefore: at.Add(-skew), NotAfter: at.Add(Lifetime),
	}
}

// Issue signs a certificate for a public key. The same question is answered by the same
// bytes, so that an answer which was lost can be given again without having been kept.
func (a *Authority) Issue(host string, workspace, runner events.ID, c events.Certificate, r Request) (string, error) {
	serial, err := hex.DecodeString(c.Serial)
	switch {
	case err != nil:
		return "", fmt.Errorf("issue certificate %s: %w", c.Serial, err)
	case c.Key != r.Hash:
		return "", fmt.Errorf("issue certificate %s: it is for another key", c.Serial)
	}
	leaf := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: "runner " + runner.String()},
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, URIs: []*url.URL{nameOf(host, workspace, runner)},
	}
	der, err := x509.CreateCertificate(nil, leaf, a.Certificate, r.Key, a.key) // without randomness the signature is RFC 6979's
	if err != nil {
		return "", fmt.Errorf("issue certificate %s: %w", c.Serial, err)
	}
	return encode(der), nil
}

// SecretPrefix begins the names under which the vault has the keys of authorities.
const SecretPrefix = "farm_authority/"

// SecretName is the name of the key of a workspace's authority.
func SecretName(workspace events.ID) string { return SecretPrefix + workspace.String() }

// MakeAuthority is [NewAuthority], as the vault keeps it: the key, and the certificate in
// PEM.
func MakeAuthority(workspace events.ID, at time.Time) (key []byte, text string, err error) {
	a, err := NewAuthority(workspace, events.NewID(at), at)
	if err != nil {
		return nil, "", err
	}
	key, err = a.Key()
	return key, a.PEM(), err
}
