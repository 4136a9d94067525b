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

// Certificates are the gateway's own, in two files that are read again when they change, as
// they do every few weeks. Use OpenCertificates.
type Certificates struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   string
	looked  time.Time
}

// How long a changed file may go unnoticed.
const lookAgain = 10 * time.Second

// OpenCertificates reads a certificate with its chain, and its key, in PEM.
func OpenCertificates(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile, now: now, log: log, looked: now()}
	var err error
	if c.stamp, err = c.files(); err != nil {
		return nil, err
	}
	c.current, err = c.load()
	return c, err
}

// TLS is how the gateway speaks: a certificate is asked for, and neither required nor
// verified, because only the service knows whose it may be.
func (c *Certificates) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// HTTP2 is how much one connection may ask for at once, and when a client that takes no bytes has
// gone: deadlines of requests do not end what waits for the connection itself.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: streams, SendPingTimeout: pings, PingTimeout: pings, WriteByteTimeout: pings,
	}
}

const (
	streams = 32
	pings   = 30 * time.Second
)

// get goes on with the certificate that was, while the files that are there are none.
func (c *Certificates) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.looked) >= lookAgain {
		c.looked = now
		c.renew()
	}
	return c.current
}

func (c *Certificates) renew() {
	stamp, err := c.files()
	if err != nil {
		c.log.Error("look for a new certificate", "err", err)
		return
	}
	if stamp == c.stamp {
		return
	}
	next, err := c.load()
	if err != nil { // perhaps one of the two files is not written yet
		c.log.Error("read a new certificate", "err", err)
		return
	}
	c.current, c.stamp = next, stamp
	c.log.Info("new certificate", "subject", next.Leaf.Subject.String(), "not_after", next.Leaf.NotAfter)
}

func (c *Certificates) files() (stamp string, err error) {
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
