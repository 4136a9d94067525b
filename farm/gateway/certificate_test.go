package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forwarded returns the header, in any spelling, that reached the service, which reads only the right one.
func forwarded(r *http.Request) (values []string) {
	for name, list := range r.Header {
		if normalizeName(name) == normalizeName(header) {
			values = append(values, list...)
		}
	}
	return values
}

// requireForwarded checks that the service received exactly this certificate.
func requireForwarded(t *testing.T, r *http.Request, want tls.Certificate) {
	t.Helper()
	values := forwarded(r)
	require.Len(t, values, 1)
	require.NotContains(t, values[0], "\n")
	text, err := url.PathUnescape(values[0])
	require.NoError(t, err)
	block, rest := pem.Decode([]byte(text))
	require.NotNil(t, block, text)
	require.Empty(t, rest)
	require.Equal(t, "CERTIFICATE", block.Type)
	require.Equal(t, want.Certificate[0], block.Bytes)
}

// certificates are certificates that the gateway must forward unverified.
func (s *subject) certificates(t *testing.T) map[string]tls.Certificate {
	t.Helper()
	client, server := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	list := map[string]tls.Certificate{
		"ECDSA": issue(t, leaf{usage: client}), "Ed25519": issue(t, leaf{usage: client, key: ed25519Key(t)}),
		"RSA": issue(t, leaf{usage: client, key: rsaKey(t)}), "expired": issue(t, leaf{usage: client, expired: true}),
		"for servers": issue(t, leaf{usage: server}), "for nothing": issue(t, leaf{}), "self-made": issue(t, leaf{server: true}),
	}
	if s.program != nil && s.program.verifies {
		for _, name := range []string{"expired", "for servers", "self-made"} {
			delete(list, name)
		}
	}
	return list
}

func TestCertificatesAreForwardedUnverified(t *testing.T) {
	everyGateway(t, func(t *testing.T, s *subject) {
		for name, pair := range s.certificates(t) {
			for _, h2 := range []bool{false, true} {
				get(t, s.client(t, s.tlsWith(&pair), h2), s.address)
				requireForwarded(t, s.next(t), pair)
				t.Log(name, h2)
			}
		}
		get(t, s.client(t, s.tlsWith(nil), true), s.address)
		require.Empty(t, forwarded(s.next(t)), "no certificate, no header")
	})
}

func get(t *testing.T, client *http.Client, address string) *http.Response {
	t.Helper()
	res, err := client.Get("https://" + address + "/api/v1/farm/registrations/self")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	return res
}

// A resumed TLS session has no certificate in its handshake, and forwards that of the original one.
func TestResumedConnectionForwardsCertificate(t *testing.T) {
	everyGateway(t, testResumedConnection)
}

func testResumedConnection(t *testing.T, s *subject) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		pair := issue(t, leaf{})
		cfg := s.tlsWith(&pair)
		cfg.MaxVersion, cfg.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
		for resumed := range 2 {
			client := s.client(t, cfg, false)
			res := get(t, client, s.address)
			require.Equal(t, resumed == 1, res.TLS.DidResume)
			require.Equal(t, version, res.TLS.Version)
			requireForwarded(t, s.next(t), pair)
			client.CloseIdleConnections()
		}
	}
	_, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.Error(t, err, "too old")
}

// A certificate cannot be used without its key.
func TestCertificateNeedsItsKey(t *testing.T) {
	everyGateway(t, func(t *testing.T, s *subject) {
		stolen, own := issue(t, leaf{}), issue(t, leaf{})
		stolen.PrivateKey = own.PrivateKey
		res, err := s.client(t, s.tlsWith(&stolen), false).Get("https://" + s.address + "/install.sh")
		if err == nil {
			require.NoError(t, res.Body.Close())
		}
		require.Error(t, err)
		require.Empty(t, s.service.seen)
	})
}

// The header must stay within the limit of the service.
func TestTooLargeCertificateIsNotForwarded(t *testing.T) {
	t.Parallel()
	s := start(t, Rules(256<<20))
	pair := issue(t, leaf{text: strings.Repeat("x", 16<<10)})
	get(t, s.client(t, s.tlsWith(&pair), false), s.address)
	require.Empty(t, forwarded(s.next(t)))
}

func TestClientCannotSetCertificateHeader(t *testing.T) { everyGateway(t, testForgedCertificateHeader) }

func testForgedCertificateHeader(t *testing.T, s *subject) {
	pair, other := issue(t, leaf{}), issue(t, leaf{})
	forged := url.PathEscape(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate[0]})))
	const target = "GET /api/v1/farm/registrations/self HTTP/1.1\r\nHost: h\r\n"
	for name, lines := range map[string]string{
		"as it is":       "X-Svc-Client-Cert: %s\r\n",
		"in lower case":  "x-svc-client-cert: %s\r\n",
		"twice":          "X-Svc-Client-Cert: %s\r\nX-Svc-Client-Cert: %[1]s\r\n",
		"underscores":    "X_Svc_Client_Cert: %s\r\nx_svc_client-cert: %[1]s\r\n",
		"dots":           "X.Svc.Client.Cert: %s\r\n",
		"connection":     "Connection: X-Svc-Client-Cert\r\nX-Svc-Client-Cert: %s\r\n",
		"connection two": "Connection: close, x-svc-client-cert\r\nX_SVC_CLIENT_CERT: %s\r\n",
		"a trailer":      "Trailer: X-Svc-Client-Cert\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Svc-Client-Cert: %s\r\n",
	} {
		text := target + fmt.Sprintf(lines, forged) + "\r\n"
		for _, with := range []*tls.Certificate{nil, &pair} {
			conn, err := tls.Dial("tcp", s.address, s.tlsWith(with))
			require.NoError(t, err)
			_, err = io.WriteString(conn, text)
			require.NoError(t, err)
			seen := s.next(t)
			if s.isOwn() {
				require.Empty(t, seen.Trailer, name)
			}
			switch {
			case with == nil:
				require.Empty(t, forwarded(seen), name)
			case s.isOwn() || !strings.HasPrefix(name, "connection") || len(forwarded(seen)) > 0:
				requireForwarded(t, seen, pair)
			}
			require.NoError(t, conn.Close())
		}
	}
}

// X-Forwarded headers of the client are replaced by what the gateway sees.
func TestClientCannotSetForwardedHeaders(t *testing.T) {
	everyGateway(t, func(t *testing.T, s *subject) {
		status, _, _ := s.raw(t, "GET /install.sh HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: "+
			"http\r\nX-Forwarded-Host: evil\r\n"+
			"Forwarded: for=10.0.0.1\r\nConnection: close, X-Forwarded-For\r\n\r\n")
		require.Equal(t, 200, status)
		seen := s.next(t)
		require.Equal(t, []string{"127.0.0.1"}, seen.Header.Values("X-Forwarded-For"))
		require.Equal(t, []string{"https"}, seen.Header.Values("X-Forwarded-Proto"))
		require.Equal(t, []string{"h"}, seen.Header.Values("X-Forwarded-Host"))
		require.Empty(t, seen.Header.Values("Forwarded"))
	})
}
