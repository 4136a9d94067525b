package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
)

// Certificates holds the gateway's own certificate, and reloads its two files when they change. Use
// [OpenCertificates].
type Certificates struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu        sync.Mutex
	current   *tls.Certificate
	stamp     string
	checkedAt time.Time
}

// checkEvery is how often the files are checked for changes.
const checkEvery = 10 * time.Second

// OpenCertificates reads a certificate with its chain, and its key, from PEM files.
func OpenCertificates(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile, now: now, log: log, checkedAt: now()}
	var err error
	if c.stamp, err = c.fileStamp(); err != nil {
		return nil, err
	}
	c.current, err = c.load()
	return c, err
}

// TLS returns the gateway's TLS configuration. A client certificate is requested, but neither
// required nor verified, since only the service knows the workspaces' authorities.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.certificate(), nil },
	}
}

// HTTP2 returns limits for HTTP/2: streams per connection, and timeouts for clients that no longer
// respond. Deadlines of requests do not cover waiting for the connection itself.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, SendPingTimeout: pingTimeout, PingTimeout: pingTimeout, WriteByteTimeout: pingTimeout,
	}
}

const (
	maxStreams  = 32
	pingTimeout = 30 * time.Second
)

// certificate returns the certificate. The previous one is used while the files are unreadable.
func (c *Certificates) certificate() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.checkedAt) >= checkEvery {
		c.checkedAt = now
		c.reloadIfChanged()
	}
	return c.current
}

func (c *Certificates) reloadIfChanged() {
	stamp, err := c.fileStamp()
	if err != nil {
		c.log.Error("look for a new certificate", "err", err)
		return
	}
	if stamp == c.stamp {
		return
	}
	next, err := c.load()
	if err != nil { // one of the two files may not be written yet
		c.log.Error("read a new certificate", "err", err)
		return
	}
	c.current, c.stamp = next, stamp
	c.log.Info("new certificate", "subject", next.Leaf.Subject.String(), "not_after", next.Leaf.NotAfter)
}

func (c *Certificates) fileStamp() (stamp string, err error) {
	for _, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprintf("%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
	return stamp, nil
}

func (c *Certificates) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key: %w", c.certFile, err)
	}
	return &pair, nil
}
