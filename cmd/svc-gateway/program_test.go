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

// TestMain is svc-gateway itself where the tests start it.
func TestMain(m *testing.M) {
	if os.Getenv("SVC_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const patience = time.Minute

// files writes a certificate for 127.0.0.1 and its key.
func files(t *testing.T) (cert, key string, roots *x509.CertPool) {
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

func TestServesAndStops(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host)
	}))
	t.Cleanup(service.Close)
	cert, key, roots := files(t)
	cmd := command(t, "SVC_GATEWAY_ADDR=127.0.0.1:0", "SVC_GATEWAY_TLS_CERT="+cert, "SVC_GATEWAY_TLS_KEY="+key, "SVC_GATEWAY_REST_URL="+service.URL)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var said strings.Builder
	lines := bufio.NewScanner(io.TeeReader(pipe, &said))
	address := ""
	for address == "" && lines.Scan() {
		if found := listens.FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
		}
	}
	require.NotEmpty(t, address, said.String())

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
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
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	for lines.Scan() { // to its end
	}
	require.NoError(t, cmd.Wait())
	require.Contains(t, said.String(), "msg=stopped")
	require.Contains(t, said.String(), "path=/internal/runs status=404")
	require.NotContains(t, said.String(), "marker-of-the-key")
}

func TestStartupFailuresNameTheVariable(t *testing.T) {
	t.Parallel()
	cert, key, _ := files(t)
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
