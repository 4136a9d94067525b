package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// requestOf returns a CSR for a key that asks for another identity.
func requestOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "admin"}, DNSNames: []string{"farm.example"},
		URIs: []*url.URL{runnerURI("farm.example", elsewhere, elsewhere)},
	}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}))
}

func TestIssuedCertificateHasIdentity(t *testing.T) {
	a := newAuthority(t, workspace)
	r, err := ReadRequest(requestOf(t, newP256(t)))
	require.NoError(t, err)
	next := NewLeaf(a.ID, r.Hash, noon)
	text, err := a.Issue("farm.example", workspace, runner, next, r)
	require.NoError(t, err)

	c, err := Parse(text)
	require.NoError(t, err)
	require.NoError(t, Verify(c, []*x509.Certificate{a.Certificate}, noon))
	i, err := IdentityOf(c)
	require.NoError(t, err)
	require.Equal(t, Identity{
		Host: "farm.example", Workspace: workspace, Runner: runner, Serial: next.Serial, Key: r.Hash, NotAfter: next.NotAfter,
	}, i)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, c.ExtKeyUsage)
	require.Equal(t, x509.KeyUsageDigitalSignature, c.KeyUsage)
	require.Empty(t, c.DNSNames, "what the request asked for counts for nothing")
	require.NotContains(t, c.Subject.String(), "admin")
	require.Equal(t, noon.Add(-5*time.Minute), c.NotBefore.UTC())
	require.Equal(t, noon.Add(7*24*time.Hour), c.NotAfter.UTC())
	require.Len(t, next.Serial, 32)
	require.Equal(t, ours, a.ID)
	require.Equal(t, ours, authorityID(a.Certificate))

	renew := RenewAfter(next)
	require.InDelta(t, 2.0/3, float64(renew.Sub(c.NotBefore))/float64(c.NotAfter.Sub(c.NotBefore)), 0.001)
}

// A lost answer is repeated byte for byte, also by another process.
func TestIssueIsDeterministic(t *testing.T) {
	a := newAuthority(t, workspace)
	r, err := ReadRequest(requestOf(t, newP256(t)))
	require.NoError(t, err)
	next := NewLeaf(a.ID, r.Hash, noon)
	first, err := a.Issue("farm.example", workspace, runner, next, r)
	require.NoError(t, err)
	key, err := a.Key()
	require.NoError(t, err)
	opened, err := OpenAuthority(a.PEM(), key)
	require.NoError(t, err)
	require.Equal(t, a.ID, opened.ID)
	again, err := opened.Issue("farm.example", workspace, runner, next, r)
	require.NoError(t, err)
	require.Equal(t, first, again)

	stranger, err := ReadRequest(requestOf(t, newP256(t)))
	require.NoError(t, err)
	_, err = a.Issue("farm.example", workspace, runner, next, stranger)
	require.ErrorContains(t, err, "for another key")
}

func TestOpenAuthorityChecksKey(t *testing.T) {
	a, b := newAuthority(t, workspace), newAuthority(t, workspace)
	key, err := b.Key()
	require.NoError(t, err)
	_, err = OpenAuthority(a.PEM(), key)
	require.EqualError(t, err, "read key of authority: it is that of another certificate")
	_, err = OpenAuthority(a.PEM(), []byte("secret"))
	require.EqualError(t, err, "read key of authority: it is malformed")
	_, err = OpenAuthority("x", key)
	require.ErrorIs(t, err, ErrUnreadable)
	template := authorityTemplate(workspace, ours, noon)
	der, err := x509.CreateCertificate(rand.Reader, template, template, b.key.Public(), newP256(t))
	require.NoError(t, err)
	_, err = OpenAuthority(encodePEM(der), key)
	require.ErrorContains(t, err, "read certificate of authority", "signed by another key")
}

func TestSerialNumbersDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		serial := NewLeaf(ours, events.KeyHash{}, noon).Serial
		require.False(t, seen[serial])
		seen[serial] = true
	}
}

func TestKeysOfRequests(t *testing.T) {
	curve := func(c elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		require.NoError(t, err)
		return key
	}
	bits := func(n int) crypto.Signer {
		key, err := rsa.GenerateKey(rand.Reader, n)
		require.NoError(t, err)
		return key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		key  crypto.Signer
		want error
	}{
		"Ed25519": {ed, nil}, "P-256": {curve(elliptic.P256()), nil}, "P-384": {curve(elliptic.P384()), nil},
		"P-521": {curve(elliptic.P521()), ErrKey}, "P-224": {curve(elliptic.P224()), ErrKey},
		"RSA 2048": {bits(2048), nil}, "RSA 1024": {bits(1024), ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReadRequest(requestOf(t, c.key))
			require.Equal(t, c.want, err)
			if c.want == nil {
				a := newAuthority(t, workspace)
				text, err := a.Issue("farm.example", workspace, runner, NewLeaf(a.ID, r.Hash, noon), r)
				require.NoError(t, err)
				leaf, err := Parse(text)
				require.NoError(t, err)
				require.NoError(t, Verify(leaf, []*x509.Certificate{a.Certificate}, noon))
			}
		})
	}
}

func TestMalformedRequests(t *testing.T) {
	good := requestOf(t, newP256(t))
	b, _ := pem.Decode([]byte(good))
	b.Bytes[len(b.Bytes)-9] ^= 4
	altered := string(pem.EncodeToMemory(b))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":              {"", ErrUnreadable},
		"a certificate":        {newAuthority(t, workspace).PEM(), ErrUnreadable},
		"two requests":         {good + good, ErrExtra},
		"leading text":         {" " + good, ErrUnreadable},
		"trailing text":        {good + "x", ErrExtra},
		"too large":            {good + strings.Repeat("\n", MaxText), ErrTooLarge},
		"an altered signature": {altered, ErrSignature},
		"malformed DER":        {"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadRequest(c.text)
			require.ErrorIs(t, err, c.want)
		})
	}
}

// Any request is refused or parsed, and a certificate can be issued for any parsed key.
func FuzzReadRequest(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	f.Add(requestOf(f, key))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\n\n-----END CERTIFICATE REQUEST-----\n")
	a, err := NewAuthority(workspace, ours, noon)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadRequest(text)
		if err != nil {
			known := false
			for _, e := range []error{ErrTooLarge, ErrUnreadable, ErrExtra, ErrKey, ErrSignature} {
				known = known || errors.Is(err, e)
			}
			require.True(t, known, err)
			return
		}
		_, err = a.Issue("farm.example", workspace, runner, NewLeaf(a.ID, r.Hash, noon), r)
		require.NoError(t, err)
	})
}
