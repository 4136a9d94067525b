package gateway

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	folder, now := t.TempDir(), time.Now()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	first, second := issue(t, leaf{server: true}), issue(t, leaf{server: true, text: "second"})
	write(t, folder, first)
	var log strings.Builder
	c, err := OpenCertificates(cert, key, func() time.Time { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	serves := func(want tls.Certificate) {
		t.Helper()
		got, err := c.TLS().GetCertificate(nil)
		require.NoError(t, err)
		require.Equal(t, want.Certificate, got.Certificate)
	}
	serves(first)
	write(t, folder, second)
	serves(first) // the files are not checked for each connection
	now = now.Add(checkEvery)
	serves(second)
	require.Contains(t, log.String(), "new certificate")

	require.NoError(t, os.WriteFile(key, []byte("half of a k"), 0o600))
	now = now.Add(checkEvery)
	serves(second)
	require.NoError(t, os.Remove(cert))
	now = now.Add(checkEvery)
	serves(second)
	write(t, folder, first)
	now = now.Add(checkEvery)
	serves(first)
}

func TestUnreadableCertificates(t *testing.T) {
	t.Parallel()
	folder, log := t.TempDir(), slog.New(slog.DiscardHandler)
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	_, err := OpenCertificates(cert, key, time.Now, log)
	require.ErrorContains(t, err, "cert.pem")
	write(t, folder, issue(t, leaf{server: true}))
	_, err = OpenCertificates(cert, key, time.Now, log)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, []byte("no key"), 0o600))
	_, err = OpenCertificates(cert, key, time.Now, log)
	require.ErrorContains(t, err, "read the certificate")
}
