package gateway

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"svc/http/middleware"
	"svc/http/serve"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// waitLimit is how long tests wait for anything.
const waitLimit = time.Minute

const header = "X-Svc-Client-Cert"

// A subject is the gateway under test, and the service behind it.
type subject struct {
	address string // host and port
	roots   *x509.CertPool
	service *service
	stop    func() // stops it, and returns when it has stopped

	listener *Listener // nil if program is another one
	program  *program  // nil for this package's gateway
}

// A program is another proxy that runs with our configuration of it.
type program struct {
	name           string
	start          func(t *testing.T, p *program) *subject
	verifies       bool // dates and purposes of certificates
	limitsChunked  bool // bodies whose length is not announced
	keepsSpellings bool // of the header that servers for CGI would take for it, as svc-rest does not
}

// programs are the other proxies. They are tested with the build tag gateways.
var programs []*program

// everyGateway runs a test with svc-gateway, or with each of the other programs if they are tested.
func everyGateway(t *testing.T, test func(*testing.T, *subject)) {
	t.Helper()
	t.Parallel()
	if len(programs) == 0 {
		test(t, start(t, Rules(256<<20)))
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p.start(t, p))
		})
	}
}

// isOwn reports whether the subject is this package's gateway, which answers in JSON and more exactly than others.
func (s *subject) isOwn() bool { return s.program == nil }

// A service is behind the gateway and records what reaches it.
type service struct {
	url  *url.URL
	seen chan *http.Request // each request, before its body is read
	read chan part          // pieces that it reads of uploads
	body chan int64         // bytes of each upload, negative if it broke off
	hang chan struct{}      // closed to release requests that ask to wait
}

type part struct{ first byte }

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{seen: make(chan *http.Request, 1000), read: make(chan part, 1), body: make(chan int64, 10)}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	var err error
	s.url, err = url.Parse(server.URL)
	require.NoError(t, err)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	s.seen <- r.Clone(context.Background())
	switch {
	case websocket.IsWebSocketUpgrade(r):
		s.echo(w, r)
	case r.URL.Query().Get("hang") != "":
		<-s.hang
	case r.URL.Query().Get("upload") != "":
		s.upload(w, r)
	default:
		_, _ = io.WriteString(w, "served")
	}
}

func (s *service) upload(w http.ResponseWriter, r *http.Request) {
	var first [1]byte
	if _, err := io.ReadFull(r.Body, first[:]); err == nil {
		select {
		case s.read <- part{first[0]}:
		default:
		}
	}
	n, err := io.Copy(io.Discard, r.Body)
	if n++; err != nil {
		n = -n
	}
	s.body <- n
	_, _ = io.WriteString(w, "stored")
}

func (s *service) echo(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{"svc-farm.v1"}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// receive returns the next value of a channel, for which it waits for waitLimit at most.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(waitLimit):
		require.FailNow(t, "nothing reached the service")
	}
	return v
}

// next returns the next request that reached the service, as the service reads it.
func (s *subject) next(t *testing.T) *http.Request {
	t.Helper()
	r := receive(t, s.service.seen)
	if s.program != nil && s.program.keepsSpellings {
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
			return name != header && normalizeName(name) == normalizeName(header)
		})
	}
	return r
}

// start runs this package's gateway with some rules.
func start(t *testing.T, rules []Rule) *subject {
	t.Helper()
	return startBefore(t, rules, newService(t))
}

func startBefore(t *testing.T, rules []Rule, behind *service) *subject {
	t.Helper()
	wide := Bounds{Connections: 1000, PerAddress: 1000, Handshakes: 1000, HandshakeTimeout: 10 * time.Second}
	return startWithin(t, rules, behind, wide, slog.DiscardHandler)
}

func startWithin(t *testing.T, rules []Rule, behind *service, bounds Bounds, handler slog.Handler) *subject {
	t.Helper()
	s := &subject{service: behind}
	server := issue(t, leaf{server: true})
	s.roots = x509.NewCertPool()
	s.roots.AddCert(server.Leaf)
	folder := t.TempDir()
	write(t, folder, server)
	log := slog.New(slog.DiscardHandler)
	certificates, err := OpenCertificates(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), time.Now, log)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = ln.Addr().String()
	g := New(s.service.url, header, rules, log)
	s.listener = NewListener(ln, certificates.TLS(), bounds, slog.New(handler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer g.Close()
		done <- serve.Server{Handler: middleware.Traced(log, g), Log: log, StopLimit: time.Second, HTTP2: HTTP2()}.Run(ctx, s.listener)
	}()
	s.stop = func() {
		cancel()
		require.NoError(t, <-done)
		g.Close()
		done <- nil
	}
	t.Cleanup(s.stop)
	return s
}

func write(t *testing.T, folder string, pair tls.Certificate) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	require.NoError(t, os.WriteFile(filepath.Join(folder, "key.pem"), key, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cert.pem"), cert, 0o600))
}

// A leaf says what is unusual about a certificate.
type leaf struct {
	server, expired bool
	key             crypto.Signer
	usage           []x509.ExtKeyUsage
	text            string // in its subject
}

// issue returns a self-signed certificate.
func issue(t *testing.T, l leaf) tls.Certificate {
	t.Helper()
	if l.key == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		l.key = key
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: l.text},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.usage,
	}
	if l.expired {
		form.NotAfter = time.Now().Add(-24 * time.Hour)
	}
	if l.server {
		form.IPAddresses, form.IsCA, form.BasicConstraintsValid = []net.IP{net.IPv4(127, 0, 0, 1)}, true, true
		form.ExtKeyUsage, form.KeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, form.KeyUsage|x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, l.key.Public(), l.key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: l.key, Leaf: parsed}
}

func ed25519Key(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

// tlsWith returns a runner's TLS configuration, with a certificate or without.
func (s *subject) tlsWith(pair *tls.Certificate) *tls.Config {
	cfg := &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}
	if pair != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return cfg
}

// client returns a runner's HTTP client.
func (s *subject) client(t *testing.T, cfg *tls.Config, h2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: h2, ExpectContinueTimeout: time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: waitLimit}
}

// raw sends text unchanged, and returns the answer.
func (s *subject) raw(t *testing.T, text string) (int, http.Header, string) {
	t.Helper()
	conn, err := tls.Dial("tcp", s.address, s.tlsWith(nil))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitLimit)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err, text)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err, text)
	if res.Close {
		res.Header.Set("Connection", "close") // removed by reading
	}
	return res.StatusCode, res.Header, string(body)
}
