package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
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

// An Authority is the certificate authority of a workspace's runners.
type Authority struct {
	ID          events.ID
	Certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority generates the authority of a workspace.
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

// OpenAuthority returns the authority with a certificate in PEM and the key that [Authority.Key]
// returned. It refuses a certificate that the key has not signed.
func OpenAuthority(text string, key []byte) (*Authority, error) {
	c, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read certificate of authority: %w", err)
	}
	opened, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("read key of authority: it is malformed") // err may contain parts of the key
	}
	signer, ok := opened.(crypto.Signer)
	if public, isECDSA := c.PublicKey.(*ecdsa.PublicKey); !ok || !isECDSA || !public.Equal(signer.Public()) {
		return nil, errors.New("read key of authority: it is that of another certificate")
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		return nil, fmt.Errorf("read certificate of authority: %w", err)
	}
	return &Authority{authorityID(c), c, signer}, nil
}

// authorityID returns the id of an authority, which is its certificate's serial number.
func authorityID(c *x509.Certificate) (id events.ID) {
	if b := c.SerialNumber.Bytes(); len(b) <= len(id) {
		copy(id[len(id)-len(b):], b)
	}
	return id
}

// PEM returns the authority's certificate in PEM.
func (a *Authority) PEM() string { return encodePEM(a.Certificate.Raw) }

// Key returns the private key in PKCS #8. It has to be stored encrypted.
func (a *Authority) Key() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(a.key) }

// NewLeaf returns the data of a certificate to be issued at a time, with a random serial number.
func NewLeaf(authority events.ID, key events.KeyHash, at time.Time) events.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x3f | 0x40 // positive, and of fixed length
	at = at.UTC().Truncate(time.Second)
	return events.Certificate{
		Authority: authority, Serial: hex.EncodeToString(serial), Key: key, NotBefore: at.Add(-skew), NotAfter: at.Add(Lifetime),
	}
}

// Issue signs the certificate c for a runner. It is deterministic: the same arguments give the same
// bytes, so that a lost answer can be repeated without storing it. r must have the key that c was
// made for.
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
		BasicConstraintsValid: true, URIs: []*url.URL{runnerURI(host, workspace, runner)},
	}
	der, err := x509.CreateCertificate(nil, leaf, a.Certificate, r.Key, a.key) // a nil reader makes signatures deterministic (RFC 6979)
	if err != nil {
		return "", fmt.Errorf("issue certificate %s: %w", c.Serial, err)
	}
	return encodePEM(der), nil
}

// SecretPrefix is the prefix of the names of authorities' keys in the vault.
const SecretPrefix = "farm_authority/"

// SecretName returns the vault's name for the key of a workspace's authority.
func SecretName(workspace events.ID) string { return SecretPrefix + workspace.String() }

// FormerName returns the vault's name for the certificate, in PEM, of an authority whose key was lost.
// That it is there means that the certificate was found in a verified log.
func FormerName(workspace events.ID, text string) string {
	digest := sha256.Sum256([]byte(text))
	return "farm_former_authority/" + workspace.String() + "/" + hex.EncodeToString(digest[:])
}

// MakeAuthority generates an authority and returns what the vault stores: the key, and the
// certificate in PEM.
func MakeAuthority(workspace events.ID, at time.Time) (key []byte, text string, err error) {
	a, err := NewAuthority(workspace, events.NewID(at), at)
	if err != nil {
		return nil, "", err
	}
	key, err = a.Key()
	return key, a.PEM(), err
}
