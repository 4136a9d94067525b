package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/release"
	"svc/farm/wire"
)

// A Refusal is an error answer of the service, or of a proxy before it.
type Refusal struct {
	Status  int
	Code    string // "" if a proxy answered
	Message string
	Details map[string]any
	After   time.Duration // how long to wait before a retry, 0 if the answer does not say
}

func (r *Refusal) Error() string {
	switch {
	case r.Code != "":
		return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message)
	case r.Status == http.StatusBadRequest: // what nginx answers to an expired certificate
		return "400 by a proxy: the certificate may have expired; enroll the machine anew"
	}
	return fmt.Sprintf("%d by a proxy, not by the service", r.Status)
}

// Final reports whether this runner will never be accepted again.
func (r *Refusal) Final() bool { return r.Code == "runner_revoked" || r.Code == "runner_retired" }

// MayBeExpired reports whether the reason may be an expired certificate. nginx does not say it any
// clearer.
func (r *Refusal) MayBeExpired() bool {
	return r.Code == "runner_certificate_required" || r.Code == "" && r.Status == http.StatusBadRequest
}

// A Client makes requests to the farm, with the runner's certificate once it has one.
type Client struct {
	base    *url.URL
	roots   *x509.CertPool
	Timeout time.Duration // of a request that is no upload

	mu       sync.Mutex
	current  certifiedClient
	requests int           // in progress
	held     bool          // whether further requests wait until the certificate has been replaced
	changed  chan struct{} // closed and replaced when requests becomes 0, or held false
}

// A certifiedClient makes requests with one certificate, or without any if it is nil.
type certifiedClient struct {
	certificate *tls.Certificate
	*http.Client
}

// newFarmClient returns a client for a farm's https address.
func newFarmClient(address string, roots *x509.CertPool, certificate *tls.Certificate) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the farm's address must be https://host, without user and query")
	}
	c := &Client{base: u, roots: roots, Timeout: requestTimeout, changed: make(chan struct{})}
	c.current = c.withCertificate(certificate)
	return c, nil
}

// OpenClient returns a client with the credentials of an enrolled runner.
func OpenClient(f Folder, id Identity) (*Client, error) {
	c, err := f.Credentials()
	if err != nil {
		return nil, err
	}
	roots, err := f.authority()
	if err != nil {
		return nil, err
	}
	return newFarmClient(id.URL, roots, c)
}

func (c *Client) withCertificate(certificate *tls.Certificate) certifiedClient {
	return certifiedClient{certificate, &http.Client{
		Transport: &http.Transport{
			Proxy: proxyOf, TLSClientConfig: c.tlsConfig(certificate), TLSHandshakeTimeout: wire.WriteTimeout,
			DialContext: (&net.Dialer{Timeout: wire.WriteTimeout}).DialContext, IdleConnTimeout: 30 * time.Second,
			ResponseHeaderTimeout: responseTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// proxyOf returns the proxy for a request. Its error does not quote the address, which may have a password.
func proxyOf(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the address of a proxy in HTTPS_PROXY cannot be read")
	}
	return u, nil
}

// begin returns the client for a request, after whose end the caller calls end.
func (c *Client) begin(ctx context.Context) (certifiedClient, error) {
	for {
		c.mu.Lock()
		if !c.held {
			defer c.mu.Unlock()
			c.requests++
			return c.current, nil
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return certifiedClient{}, fmt.Errorf("wait for the new certificate: %w", ctx.Err())
		}
	}
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests--; c.requests == 0 {
		c.notifyLocked()
	}
}

func (c *Client) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// ReplaceCertificate switches to another certificate at a moment at which no request is in progress,
// and calls save then: the service takes a certificate that is used after its successor as a sign that
// it was copied. Until then requests are made with the old certificate. From latest on, and during save,
// they wait.
func (c *Client) ReplaceCertificate(ctx context.Context, next *tls.Certificate, latest time.Time,
	save func(context.Context) error,
) error {
	hold := time.NewTimer(time.Until(latest))
	defer hold.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.held = false; c.notifyLocked() }()
	for c.requests > 0 {
		changed := c.changed
		c.mu.Unlock()
		held, err := false, error(nil)
		select {
		case <-changed:
		case <-hold.C:
			held = true
		case <-ctx.Done():
			err = fmt.Errorf("wait for requests with the old certificate: %w", ctx.Err())
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
		c.held = c.held || held
	}
	c.held = true // not by mu, which cannot be given up: save may wait for other processes
	c.mu.Unlock()
	err := save(ctx)
	c.mu.Lock()
	if err != nil {
		return err
	}
	c.current.CloseIdleConnections()
	c.current = c.withCertificate(next)
	return nil
}

// requestTimeout limits a request that is no upload.
const requestTimeout = 30 * time.Second

// responseTimeout limits the wait for the answer to an upload, for which the service hashes files.
const responseTimeout = 10 * time.Minute

// tlsConfig returns the TLS configuration for a certificate. It is given by a callback: from a list
// of certificates Go would send none if the server names only authorities other than the farm's.
func (c *Client) tlsConfig(certificate *tls.Certificate) *tls.Config {
	return &tls.Config{
		RootCAs: c.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate == nil {
				return &tls.Certificate{}, nil
			}
			return certificate, nil
		},
	}
}

// Held reports whether requests wait until the certificate has been replaced.
func (c *Client) Held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// Expiry returns when the certificate expires, zero if there is none.
func (c *Client) Expiry() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.certificate == nil {
		return time.Time{}
	}
	return c.current.certificate.Leaf.NotAfter
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.CloseIdleConnections()
}

const maxResponse = 1 << 20

// CallJSON sends in as JSON, if it is not nil, and decodes the answer into out.
func (c *Client) CallJSON(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var body io.Reader
	var size int64
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body, size = bytes.NewReader(text), int64(len(text))
	}
	return c.Call(ctx, method, path, "application/json", body, size, out)
}

// Call is [Client.CallJSON] with any body of a size, and with no limit of time.
func (c *Client) Call(ctx context.Context, method, path, contentType string, body io.Reader, size int64, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", contentType)
	}
	return c.do(req, path, out)
}

// do makes a request and decodes the answer into out, if it is not nil.
func (c *Client) do(req *http.Request, path string, out any) error {
	client, err := c.begin(req.Context())
	if err != nil {
		return fmt.Errorf("%s %s: %w", req.Method, path, err)
	}
	defer c.end()
	req.Header.Set("User-Agent", "svc-runner/"+release.Version)
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", req.Method, path, WithoutAddress(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %w", req.Method, path, readRefusal(res, text))
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", req.Method, path, err)
	}
	return nil
}

// WithoutAddress strips the method and address from an error, where the caller adds them.
func WithoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func readRefusal(res *http.Response, text []byte) *Refusal {
	r := &Refusal{Status: res.StatusCode}
	if n, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil {
		r.After = time.Duration(n) * time.Second
	}
	var body struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	}
	if json.Unmarshal(text, &body) == nil {
		r.Code, r.Message, r.Details = body.Code, body.Message, body.Details
	}
	return r
}

// Dial opens the agent's WebSocket.
func (c *Client) Dial(ctx context.Context, address string) (*websocket.Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "wss" {
		return nil, errors.New("the address to connect to must be wss://")
	}
	client, err := c.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer c.end()
	d := websocket.Dialer{
		Proxy: proxyOf, TLSClientConfig: c.tlsConfig(client.certificate), HandshakeTimeout: wire.WriteTimeout,
		Subprotocols: []string{wire.Version}, WriteBufferSize: 64 << 10, ReadBufferSize: 16 << 10,
	}
	conn, res, err := d.DialContext(ctx, address, http.Header{"User-Agent": {"svc-runner/" + release.Version}})
	if err != nil {
		if res != nil {
			text, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse))
			_ = res.Body.Close()
			return nil, fmt.Errorf("connect: %w", readRefusal(res, text))
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	if conn.Subprotocol() != wire.Version {
		_ = conn.Close()
		return nil, fmt.Errorf("connect: the service does not speak %s", wire.Version)
	}
	return conn, nil
}
