// Package certificate issues and verifies the certificates of build machines. Each workspace has
// its own certificate authority, so a certificate is good for one workspace only. The package uses
// no database and no clock.
//
// # Content of a certificate
//
// A leaf has one name, a URI: spiffe://<host of the farm>/ws/<workspace>/runner/<runner>. It is for
// client authentication only, is valid for [Lifetime], and has a random serial number. Of a
// certificate request (CSR) only the public key is used, whatever else it asks for. The log of the
// workspace says whether a certificate is still the runner's current one and whether the runner is
// revoked; there are no revocation lists.
//
// # Forwarding
//
// A gateway terminates TLS and forwards the client's certificate in a header, URL-encoded
// (header.go). Gateways check only that the client has the key. Two things that
// [x509.Certificate.Verify] accepts are refused here: a leaf without extended key usages, and the
// authority's own certificate used as a leaf.
package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"svc/events"
)

const (
	// Lifetime is how long a runner's certificate is valid.
	Lifetime = 7 * 24 * time.Hour

	// authorityLifetime is how long an authority's certificate is valid.
	authorityLifetime = 10 * 365 * 24 * time.Hour

	// skew is how far machines' clocks may be behind: certificates are valid from that long before their issue.
	skew = 5 * time.Minute

	pemCertificate = "CERTIFICATE"
)

// RenewAfter returns when a certificate should be renewed: after two thirds of its validity.
func RenewAfter(c events.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3).Truncate(time.Second)
}

// encodePEM returns a certificate in PEM.
func encodePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}))
}

// Parse parses a text that is one certificate in PEM. Its error wraps [ErrUnreadable], [ErrExtra]
// or [ErrTooLarge].
func Parse(text string) (*x509.Certificate, error) {
	der, err := decodePEM(text, pemCertificate)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return c, nil
}

// Errors of parsing certificates and certificate requests.
var (
	ErrUnreadable = errors.New("unreadable certificate")
	ErrExtra      = errors.New("more than one certificate, or something around it")
	ErrTooLarge   = errors.New("too large for a certificate")
)
