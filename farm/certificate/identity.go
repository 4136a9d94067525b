package certificate

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/events"
)

// Why a certificate is not that of a runner.
var (
	ErrAuthority = errors.New("a certificate of an authority, not of a runner")
	ErrName      = errors.New("not exactly one name, of a runner")
	ErrUsage     = errors.New("not for client authentication")
	ErrUntrusted = errors.New("not signed by an authority of the workspace, or not valid now")
)

// An Identity is what a certificate says of who holds it.
type Identity struct {
	Host              string // of the farm, when it was issued
	Workspace, Runner events.ID
	Serial            string // hex, lower case
	Key               events.KeyHash
	NotAfter          time.Time
}

// IdentityOf reads whom a certificate names. Whether that is true [Verify] says.
func IdentityOf(c *x509.Certificate) (Identity, error) {
	if c.IsCA || c.KeyUsage&x509.KeyUsageCertSign != 0 {
		return Identity{}, ErrAuthority
	}
	if len(c.URIs) != 1 || len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses) > 0 {
		return Identity{}, ErrName
	}
	workspace, runner, ok := parseName(c.URIs[0])
	if !ok {
		return Identity{}, ErrName
	}
	return Identity{
		Host: c.URIs[0].Host, Workspace: workspace, Runner: runner, Serial: hex.EncodeToString(c.SerialNumber.Bytes()),
		Key: sha256.Sum256(c.RawSubjectPublicKeyInfo), NotAfter: c.NotAfter,
	}, nil
}

func nameOf(host string, workspace, runner events.ID) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: host, Path: "/ws/" + workspace.String() + "/runner/" + runner.String()}
}

// parseName accepts the name only in the form in which it is written.
func parseName(u *url.URL) (workspace, runner events.ID, ok bool) {
	parts := strings.Split(u.Path, "/")
	if len(parts) != 5 {
		return workspace, runner, false
	}
	workspace, bad := events.ParseID(parts[2])
	runner, worse := events.ParseID(parts[4])
	return workspace, runner, bad == nil && worse == nil && u.Host != "" && u.String() == nameOf(u.Host, workspace, runner).String()
}

// Verify refuses a certificate that none of the authorities of its workspace signed, that
// is not valid at a time, or that is for something else.
func Verify(c *x509.Certificate, authorities []*x509.Certificate, at time.Time) error {
	roots := x509.NewCertPool()
	for _, a := range authorities {
		roots.AddCert(a)
	}
	_, err := c.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return ErrUntrusted
	case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth): // none at all passes for any
		return ErrUsage
	}
	return nil
}
