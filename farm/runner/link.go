package runner

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
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/wire"
)

// A Refusal is an answer of the service, or of a proxy before it, that is no success.
type Refusal struct {
	Status  int
	Code    string // "" of a proxy
	Message string
	Details map[string]any
}

func (r *Refusal) Error() string {
	switch {
	case r.Code != "":
		return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message)
	case r.Status == http.StatusBadRequest: // nginx, of a certificate that is over
		return "400 by a proxy: the certificate may have expired; enrol the machine anew"
	}
	return fmt.Sprintf("%d by a proxy, not by the service", r.Status)
}

// final reports whether asking again is of no use to this runner, ever.
func (r *Refusal) final() bool { return r.Code == "runner_revoked" || r.Code == "runner_retired" }

// ofCertificate reports whether it may be that the certificate has expired, of which nginx says no more.
func (r *Refusal) ofCertificate() bool {
	return r.Code == "runner_certificate_required" || r.Code == "" && r.Status == http.StatusBadRequest
}

// A link is how a runner reaches the farm, with its certificate if it has one.
type link struct {
	base  *url.URL
	roots *x509.CertPool

	mu          sync.RWMutex // a request holds it to read
	certificate *tls.Certificate
	client      *http.Client
}

// newLink takes an address of the farm, which is https.
func newLink(address string, roots *x509.CertPool, certificate *tls.Certificate) (*link, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the farm's address must be https://host, without user and query")
	}
	l := &link{base: u, roots: roots}
	l.use(certificate)
	return l, nil
}

// use has everything from now on go by another certificate. It waits for requests that
// are under way: a certificate that is seen after its successor means that somebody has a copy.
func (l *link) use(certificate *tls.Certificate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
	l.certificate = certificate
	l.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: l.tls(certificate), TLSHandshakeTimeout: wire.WriteLimit,
			DialContext: (&net.Dialer{Timeout: wire.WriteLimit}).DialContext, IdleConnTimeout: 30 * time.Second,
			ResponseHeaderTimeout: answerLimit,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answerLimit is how long an answer to an upload may take: the service hashes files then.
const answerLimit = 10 * time.Minute

// tls is the configuration for a certificate. It is given by a function: with a list of
// certificates Go sends none where the server names authorities that are not the farm's.
func (l *link) tls(certificate *tls.Certificate) *tls.Config {
	return &tls.Config{
		RootCAs: l.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate == nil {
				return &tls.Certificate{}, nil
			}
			return certificate, nil
		},
	}
}

// expires is when the certificate does.
func (l *link) expires() time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.certificate == nil {
		return time.Time{}
	}
	return l.certificate.Leaf.NotAfter
}

// close closes connections that nobody uses.
func (l *link) close() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.client.CloseIdleConnections()
}

const maxAnswer = 1 << 20

// ask sends in as JSON, if it is not nil, and reads the answer into out.
func (l *link) ask(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	return l.send(ctx, method, path, "application/json", body, out)
}

// send is ask with any body.
func (l *link) send(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	req, err := http.NewRequestWithContext(ctx, method, l.base.JoinPath(path).String(), body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("User-Agent", "svc-runner/"+Version)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := l.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, withoutAddress(err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %w", method, path, refusal(res, text))
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	return nil
}

// withoutAddress takes the method and address off, which stand before it already.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func refusal(res *http.Response, text []byte) *Refusal {
	r := &Refusal{Status: res.StatusCode}
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

// dial opens the agent's connection.
func (l *link) dial(ctx context.Context, address string) (*websocket.Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "wss" {
		return nil, errors.New("the address to connect to must be wss://")
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	d := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: l.tls(l.certificate), HandshakeTimeout: wire.WriteLimit,
		Subprotocols: []string{wire.Version}, WriteBufferSize: 64 << 10, ReadBufferSize: 16 << 10,
	}
	conn, res, err := d.DialContext(ctx, address, http.Header{"User-Agent": {"svc-runner/" + Version}})
	if err != nil {
		if res != nil {
			text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
			_ = res.Body.Close()
			return nil, fmt.Errorf("connect: %w", refusal(res, text))
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	if conn.Subprotocol() != wire.Version {
		_ = conn.Close()
		return nil, fmt.Errorf("connect: the service does not speak %s", wire.Version)
	}
	return conn, nil
}
