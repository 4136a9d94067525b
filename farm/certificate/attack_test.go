package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

var (
	noon      = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	workspace = events.ID{1, 0x9a, 6: 0x70, 8: 0x80, 15: 1}
	elsewhere = events.ID{1, 0x9a, 6: 0x70, 8: 0x80, 15: 2}
	runner    = events.ID{1, 0x9a, 6: 0x70, 8: 0x80, 15: 3}
	ours      = events.ID{1, 0x9a, 6: 0x70, 8: 0x80, 15: 4}
)

func newAuthority(t *testing.T, of events.ID) *Authority {
	t.Helper()
	a, err := NewAuthority(of, ours, noon.Add(-time.Hour))
	require.NoError(t, err)
	return a
}

func newP256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// good returns a certificate as the authority issues it, with changes.
func good(t *testing.T, a *Authority, key crypto.PublicKey, change func(*x509.Certificate)) []byte {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(0x4f0102), Subject: pkix.Name{CommonName: "runner"}, NotBefore: noon.Add(-skew), NotAfter: noon.Add(Lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, URIs: []*url.URL{runnerURI("farm.example", workspace, runner)},
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.Certificate, key, a.key)
	require.NoError(t, err)
	return der
}

// verifyHeader does with a header what the guard does, as far as this package is involved.
func verifyHeader(header []string, authorities map[events.ID][]*x509.Certificate) (Identity, error) {
	c, err := FromHeader(header)
	if err != nil {
		return Identity{}, err
	}
	i, err := IdentityOf(c)
	if err != nil {
		return Identity{}, err
	}
	return i, Verify(c, authorities[i.Workspace], noon)
}

// Each row is an attack on the forwarded header.
func TestHeaderAttacks(t *testing.T) {
	a, other := newAuthority(t, workspace), newAuthority(t, elsewhere)
	known := map[events.ID][]*x509.Certificate{workspace: {a.Certificate}, elsewhere: {other.Certificate}}
	twin, err := NewAuthority(workspace, ours, noon.Add(-time.Hour)) // the same names, another key
	require.NoError(t, err)
	require.Equal(t, a.Certificate.RawSubject, twin.Certificate.RawSubject)
	key := newP256(t)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	issue := func(by *Authority, change func(*x509.Certificate)) string {
		return encodePEM(good(t, by, key.Public(), change))
	}
	text := issue(a, nil)
	escaped := url.PathEscape(text)
	flip := func(der []byte) []byte { der[len(der)-9] ^= 4; return der }
	oneLine := "-----BEGIN%20CERTIFICATE-----%0A" + base64.StdEncoding.EncodeToString(good(t, a, key.Public(),
		nil)) + "%0A-----END%20CERTIFICATE-----%0A"
	critical := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Critical: true, Value: []byte{5, 0}}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))

	for name, row := range map[string]struct {
		header []string
		want   error
	}{
		"good":                 {[]string{escaped}, nil},
		"good, Ed25519":        {[]string{url.PathEscape(encodePEM(good(t, a, public, nil)))}, nil},
		"good, as a query":     {[]string{url.QueryEscape(text)}, nil},
		"good, in one line":    {[]string{oneLine}, nil},
		"good, plus signs raw": {[]string{strings.NewReplacer(" ", "%20", "\n", "%0A").Replace(text)}, nil},

		"absent":                      {nil, ErrMissing},
		"empty":                       {[]string{""}, ErrMissing},
		"header repeated":             {[]string{escaped, escaped}, ErrRepeated},
		"joined by a comma":           {[]string{escaped + ", " + escaped}, ErrExtra},
		"signed by another workspace": {[]string{url.PathEscape(issue(other, nil))}, ErrUntrusted},
		"signed by an authority with the same name": {[]string{url.PathEscape(issue(twin, nil))}, ErrUntrusted},
		"self-signed": {[]string{url.PathEscape(selfSigned(t, key))}, ErrUntrusted},
		"expired": {[]string{url.PathEscape(issue(a, func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }))},
			ErrUntrusted},
		"not valid yet": {[]string{url.PathEscape(issue(a, func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Second) }))},
			ErrUntrusted},
		"for server authentication": {[]string{url.PathEscape(issue(a, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}))}, ErrUntrusted},
		"without extended key usage": {[]string{url.PathEscape(issue(a, func(c *x509.Certificate) { c.ExtKeyUsage = nil }))}, ErrUsage},
		"authority itself":           {[]string{url.PathEscape(a.PEM())}, ErrAuthority},
		"two certificates":           {[]string{url.PathEscape(text + a.PEM())}, ErrExtra},
		"trailing text":              {[]string{escaped + "x"}, ErrExtra},
		"leading text":               {[]string{"x" + escaped}, ErrUnreadable},
		"truncated":                  {[]string{url.PathEscape(text[:len(text)/2])}, ErrUnreadable},
		"a bad escape":               {[]string{escaped + "%zz"}, ErrUnreadable},
		"a NUL":                      {[]string{escaped + "%00"}, ErrExtra},
		"a private key":              {[]string{url.PathEscape(private)}, ErrUnreadable},
		"17 KiB":                     {[]string{escaped + strings.Repeat("%0A", 17<<10/3)}, ErrTooLarge},
		"flipped bit in signature":   {[]string{url.PathEscape(encodePEM(flip(good(t, a, key.Public(), nil))))}, ErrUntrusted},
		"a critical extension": {[]string{url.PathEscape(issue(a,
			func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{critical} }))}, ErrUntrusted},
		"two names": {[]string{url.PathEscape(issue(a, twice))}, ErrName},
		"a name and a host": {[]string{url.PathEscape(issue(a,
			func(c *x509.Certificate) { c.DNSNames = []string{"farm.example"} }))}, ErrName},
		"no name": {[]string{url.PathEscape(issue(a, func(c *x509.Certificate) { c.URIs = nil }))}, ErrName},
		"another scheme": {[]string{url.PathEscape(issue(a,
			named("https://farm.example/ws/"+workspace.String()+"/runner/"+runner.String())))}, ErrName},
		"name with further path": {[]string{url.PathEscape(issue(a, named(runnerURI("f", workspace, runner).String()+"/x")))}, ErrName},
		"a name with a query":    {[]string{url.PathEscape(issue(a, named(runnerURI("f", workspace, runner).String()+"?a=b")))}, ErrName},
		"a name in capitals": {[]string{url.PathEscape(issue(a,
			named(strings.ToUpper(runnerURI("f", workspace, runner).String()))))}, ErrName},
		"workspace without authority": {[]string{url.PathEscape(issue(a, named(runnerURI("f", runner, runner).String())))}, ErrUntrusted},
		"PEM headers":                 {[]string{url.PathEscape(withHeaders(t, text))}, ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := verifyHeader(row.header, known)
			if row.want == nil {
				require.NoError(t, err)
				require.Equal(t, workspace, got.Workspace)
				require.Equal(t, runner, got.Runner)
				require.Equal(t, "farm.example", got.Host)
				require.Equal(t, "4f0102", got.Serial)
				return
			}
			require.ErrorIs(t, err, row.want)
		})
	}
}

func twice(c *x509.Certificate) {
	c.URIs = append(c.URIs, runnerURI("farm.example", elsewhere, runner))
}

func named(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		u, err := url.Parse(name)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{u}
	}
}

func selfSigned(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	a := &Authority{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "me"}}, key: key}
	return encodePEM(good(t, a, key.Public(), nil))
}

func withHeaders(t *testing.T, text string) string {
	t.Helper()
	b, _ := pem.Decode([]byte(text))
	b.Headers = map[string]string{"Proc-Type": "4,ENCRYPTED"}
	return string(pem.EncodeToMemory(b))
}

// A gateway may leave plus signs of base64 unescaped. Certificates with plus signs are accepted in
// every form of the header.
func TestPlusSignsAreBase64(t *testing.T) {
	a := newAuthority(t, workspace)
	known := map[events.ID][]*x509.Certificate{workspace: {a.Certificate}}
	seen := 0
	for range 200 {
		text := encodePEM(good(t, a, newP256(t).Public(), nil))
		raw := strings.NewReplacer(" ", "%20", "\n", "%0A").Replace(text)
		if strings.Contains(raw, "+") {
			seen++
		}
		for _, header := range []string{raw, url.PathEscape(text), url.QueryEscape(text)} {
			_, err := verifyHeader([]string{header}, known)
			require.NoError(t, err, header)
		}
	}
	require.Greater(t, seen, 150)
}

// Any header is refused or parsed, and what is parsed is exactly one certificate.
func FuzzFromHeader(f *testing.F) {
	a, err := NewAuthority(workspace, ours, noon)
	require.NoError(f, err)
	f.Add(url.PathEscape(a.PEM()))
	f.Add(url.QueryEscape(a.PEM()))
	f.Add("-----BEGIN%20CERTIFICATE-----%0A%0A-----END%20CERTIFICATE-----%0A")
	f.Add("%")
	f.Fuzz(func(t *testing.T, header string) {
		c, err := FromHeader([]string{header})
		if err != nil {
			known := false
			for _, e := range []error{ErrMissing, ErrRepeated, ErrTooLarge, ErrUnreadable, ErrExtra} {
				known = known || errors.Is(err, e)
			}
			require.True(t, known, err)
			return
		}
		again, err := Parse(encodePEM(c.Raw))
		require.NoError(t, err)
		require.True(t, again.Equal(c))
		if i, err := IdentityOf(c); err == nil {
			require.Equal(t, events.KeyHash(sha256.Sum256(c.RawSubjectPublicKeyInfo)), i.Key)
			require.Equal(t, runnerURI(i.Host, i.Workspace, i.Runner).String(), c.URIs[0].String())
		}
	})
}
