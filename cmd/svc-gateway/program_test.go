package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain runs svc-gateway itself if a test starts it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("SVC_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const testTimeout = time.Minute

// writeCertificate writes a certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "marker-of-the-key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(parsed)
	return cert, key, roots
}

func command(t *testing.T, environ ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append([]string{"SVC_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0"}, environ...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

var listens = regexp.MustCompile(`msg=listening address=(\S+)`)

// A running is a svc-gateway with its output so far.
type running struct {
	*exec.Cmd
	address string
	roots   *x509.CertPool
	said    *strings.Builder
	lines   *bufio.Scanner
}

// start starts svc-gateway in front of a service.
func start(t *testing.T, environ ...string) *running {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host)
	}))
	t.Cleanup(service.Close)
	cert, key, roots := writeCertificate(t)
	cmd := command(t, append(environ, "SVC_GATEWAY_ADDR=127.0.0.1:0", "SVC_GATEWAY_TLS_CERT="+cert, "SVC_GATEWAY_TLS_KEY="+key,
		"SVC_GATEWAY_REST_URL="+service.URL)...)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	g := &running{Cmd: cmd, roots: roots, said: new(strings.Builder)}
	g.lines = bufio.NewScanner(io.TeeReader(pipe, g.said))
	for g.address == "" && g.lines.Scan() {
		if found := listens.FindStringSubmatch(g.lines.Text()); found != nil {
			g.address = found[1]
		}
	}
	require.NotEmpty(t, g.address, g.said.String())
	return g
}

// stop stops it and returns all its output.
func (g *running) stop(t *testing.T) string {
	t.Helper()
	require.NoError(t, g.Process.Signal(syscall.SIGTERM))
	for g.lines.Scan() { // to its end
	}
	require.NoError(t, g.Wait())
	return g.said.String()
}

func TestServesAndStops(t *testing.T) {
	t.Parallel()
	g := start(t)
	address := g.address
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: g.roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: testTimeout}
	for path, want := range map[string]int{"/install.sh": 200, "/internal/runs": 404, "/health/live": 404} {
		res, err := client.Get("https://" + address + path)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, path)
		if want == 200 {
			require.Equal(t, address, string(body), "the host that was asked for")
		}
	}
	said := g.stop(t)
	require.Contains(t, said, "msg=stopped")
	require.Contains(t, said, "path=/internal/runs status=404")
	require.NotContains(t, said, "marker-of-the-key")
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, bound := range []string{"SVC_GATEWAY_MAX_CONNECTIONS", "SVC_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS"} {
		g := start(t, bound+"=1")
		ask := func() error {
			conn, err := tls.Dial("tcp", g.address, &tls.Config{RootCAs: g.roots})
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
				_, err = io.WriteString(conn, "GET /install.sh HTTP/1.1\r\nHost: h\r\n\r\n")
			}
			if err == nil {
				_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200")))
			}
			return err
		}
		require.NoError(t, ask())
		require.Error(t, ask())
		require.Contains(t, g.stop(t), "connections are refused")
	}
}

func TestStartupFailuresNameTheVariable(t *testing.T) {
	t.Parallel()
	cert, key, _ := writeCertificate(t)
	complete := []string{
		"SVC_GATEWAY_ADDR=127.0.0.1:0", "SVC_GATEWAY_TLS_CERT=" + cert, "SVC_GATEWAY_TLS_KEY=" + key, "SVC_GATEWAY_REST_URL=http://127.0.0.1:1",
	}
	for _, c := range []struct{ variable, want string }{
		{"SVC_GATEWAY_ADDR=nowhere", "SVC_GATEWAY_ADDR is malformed"},
		{"SVC_GATEWAY_TLS_CERT=", "SVC_GATEWAY_TLS_CERT is missing"},
		{"SVC_GATEWAY_TLS_KEY=", "SVC_GATEWAY_TLS_KEY is missing"},
		{"SVC_GATEWAY_TLS_CERT=" + cert + ".none", "SVC_GATEWAY_TLS_CERT, SVC_GATEWAY_TLS_KEY: stat "},
		{"SVC_GATEWAY_TLS_KEY=" + cert, "SVC_GATEWAY_TLS_CERT, SVC_GATEWAY_TLS_KEY: read the certificate"},
		{"SVC_GATEWAY_REST_URL=", "SVC_GATEWAY_REST_URL is missing"},
		{"SVC_GATEWAY_REST_URL=ftp://127.0.0.1", "SVC_GATEWAY_REST_URL is malformed"},
		{"SVC_GATEWAY_REST_URL=http://127.0.0.1/api", "SVC_GATEWAY_REST_URL is malformed: want a scheme and a host alone"},
		{"SVC_FARM_CLIENT_CERT_HEADER=Host", "SVC_FARM_CLIENT_CERT_HEADER is malformed"},
		{"SVC_ARTIFACT_MAX_JOB_BYTES=0", "SVC_ARTIFACT_MAX_JOB_BYTES is malformed"},
		{"SVC_GATEWAY_MAX_CONNECTIONS=0", "SVC_GATEWAY_MAX_CONNECTIONS is malformed"},
		{"SVC_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS=many", "SVC_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS is malformed"},
		{"SVC_GATEWAY_MAX_HANDSHAKES=-1", "SVC_GATEWAY_MAX_HANDSHAKES is malformed"},
		{"SVC_GATEWAY_HANDSHAKE_TIMEOUT=1ms", "SVC_GATEWAY_HANDSHAKE_TIMEOUT is malformed"},
		{"SVC_METRICS_ADDR=nowhere", "SVC_METRICS_ADDR is malformed"},
		{"SVC_LOG_LEVEL=loud", "SVC_LOG_LEVEL is malformed"},
	} {
		out, err := command(t, append(complete, c.variable)...).CombinedOutput()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), string(out))
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, string(out), c.want)
	}
}
