// Package certificate makes and judges the certificates of build machines. Each workspace
// has an authority of its own, which signs them, so what a certificate opens ends at the
// workspace. The package knows no database and no clock.
//
// # What a certificate says
//
// A leaf has one name, a URI: spiffe://<host of the farm>/ws/<workspace>/runner/<runner>.
// It is for client authentication alone, lasts [Lifetime], and has a random serial
// number. Of a request for one (CSR) only the public key is taken, whatever else it asks
// for. Whether a certificate is still the runner's, and the runner still let in, the log
// of the workspace says; there are no lists of revoked certificates.
//
// # How it arrives
//
// A gateway terminates TLS and forwards the client's certificate in a header, URL-encoded
// (header.go). Gateways check only that the client holds the key. Two things that
// [x509.Certificate.Verify] accepts are refused here: a leaf without extended key usages,
// and the authority's own certificate shown as a leaf.
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
	// Lifetime is how long a runner's certificate lasts.
	Lifetime = 7 * 24 * time.Hour

	// authorityLifetime is how long that of an authority does.
	authorityLifetime = 10 * 365 * 24 * time.Hour

	// skew is how far the clocks of machines may be behind.
	skew = 5 * time.Minute

	pemCertificate = "CERTIFICATE"
)

// RenewAfter is when a certificate should be renewed: after two thirds of its time.
func RenewAfter(c events.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3).Truncate(time.Second)
}

// encode returns the PEM form of a certificate.
func encode(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}))
}

// Parse reads a certificate in its PEM form, with nothing around it.
func Parse(text string) (*x509.Certificate, error) {
	der, err := block(text, pemCertificate)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return c, nil
}

// Why a text is no certificate, or no request for one.
var (
	ErrUnreadable = errors.New("unreadable certificate")
	ErrExtra      = errors.New("more than one certificate, or something around it")
	ErrTooLarge   = errors.New("too large for a certificate")
)
