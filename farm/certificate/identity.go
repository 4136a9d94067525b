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

// Errors of [IdentityOf] and [Verify].
var (
	ErrAuthority = errors.New("a certificate of an authority, not of a runner")
	ErrName      = errors.New("not exactly one name, of a runner")
	ErrUsage     = errors.New("not for client authentication")
	ErrUntrusted = errors.New("not signed by an authority of the workspace, or not valid now")
)

// An Identity is the runner that a certificate names.
type Identity struct {
	Host              string // host of the farm when the certificate was issued
	Workspace, Runner events.ID
	Serial            string // hex, lower case
	Key               events.KeyHash
	NotAfter          time.Time
}

// IdentityOf returns the identity in a certificate. It is trustworthy only after [Verify]. The
// error is [ErrAuthority] or [ErrName].
func IdentityOf(c *x509.Certificate) (Identity, error) {
	if c.IsCA || c.KeyUsage&x509.KeyUsageCertSign != 0 {
		return Identity{}, ErrAuthority
	}
	if len(c.URIs) != 1 || len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses) > 0 {
		return Identity{}, ErrName
	}
	workspace, runner, ok := parseRunnerURI(c.URIs[0])
	if !ok {
		return Identity{}, ErrName
	}
	return Identity{
		Host: c.URIs[0].Host, Workspace: workspace, Runner: runner, Serial: hex.EncodeToString(c.SerialNumber.Bytes()),
		Key: sha256.Sum256(c.RawSubjectPublicKeyInfo), NotAfter: c.NotAfter,
	}, nil
}

func runnerURI(host string, workspace, runner events.ID) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: host, Path: "/ws/" + workspace.String() + "/runner/" + runner.String()}
}

// parseRunnerURI accepts a name only in the exact form that runnerURI produces.
func parseRunnerURI(u *url.URL) (workspace, runner events.ID, ok bool) {
	parts := strings.Split(u.Path, "/")
	if len(parts) != 5 {
		return workspace, runner, false
	}
	workspace, bad := events.ParseID(parts[2])
	runner, worse := events.ParseID(parts[4])
	return workspace, runner, bad == nil && worse == nil && u.Host != "" && u.String() == runnerURI(u.Host, workspace, runner).String()
}

// Verify returns [ErrUntrusted] if none of the workspace's authorities signed the certificate or it
// is not valid at that time, and [ErrUsage] if it is not for client authentication.
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
	case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth): // Verify accepts a certificate without any usage
		return ErrUsage
	}
	return nil
}
