package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"svc/config"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
)

// A Gateway is the HTTP handler of the farm's public address. Use [New].
type Gateway struct {
	rules   []Rule
	proxies map[string]*httputil.ReverseProxy // by name of the rule
	log     *slog.Logger

	mu      sync.Mutex
	closed  bool
	open    sync.WaitGroup // requests and tunnels in progress
	closing context.Context
	cancel  context.CancelFunc
}

// New returns a gateway that forwards what rules allow to the REST service, with the runner's
// certificate in header.
func New(rest *url.URL, header config.HeaderName, rules []Rule, log *slog.Logger) *Gateway {
	g := &Gateway{rules: rules, proxies: map[string]*httputil.ReverseProxy{}, log: log}
	g.closing, g.cancel = context.WithCancel(context.Background())
	for _, rule := range rules {
		g.proxies[rule.Name] = g.proxy(rest, header, rule)
	}
	return g
}

// Close ends all tunnels, which the HTTP server does not, and all other requests, and waits for
// them. Later requests are refused.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.open.Wait()
	for _, p := range g.proxies {
		p.Transport.(*http.Transport).CloseIdleConnections()
	}
}

func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.open.Add(1)
	}
	return !g.closed
}

var (
	errNotFound = fault.New(fault.NotFound, "not_found", "There is nothing here.")
	errTooLarge = fault.New(fault.TooLarge, "payload_too_large", "The body is larger than this path takes.")
)

func refuse(w http.ResponseWriter, f *fault.Fault) { reply.JSON(w, f.Kind.Status(), reply.BodyOf(f)) }

// ServeHTTP forwards a request that matches a rule, and refuses any other.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.begin() {
		w.Header().Set("Connection", "close")
		refuse(w, fault.ErrUnavailable)
		return
	}
	defer g.open.Done()
	rule, ok := Match(g.rules, r.Method, r.RequestURI)
	out := &deadlineWriter{w, http.NewResponseController(w), rule.IdleTimeout, rule.TunnelIdle}
	if !ok {
		out.idle = usualTimeout
		skipBody(out, r)
		refuse(out, errNotFound)
		return
	}
	middleware.SetRoute(r.Context(), r.Method, rule.Name)
	if r.ContentLength > rule.MaxBody {
		g.tooLarge(out, r)
		return
	}
	g.forward(out, r, rule)
}

func (g *Gateway) tooLarge(w http.ResponseWriter, r *http.Request) {
	skipBody(w, r)
	refuse(w, errTooLarge)
}

// skipBody makes the server answer without reading the rest of the body, and limits how long it
// waits for the body after that.
func skipBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTimeout)) // fails only if the connection is gone
	}
}

type bodyKey struct{}

func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, rule Rule) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.closing, cancel)()
	sent := newBody(w, r, rule)
	defer sent.done()
	r = r.Clone(context.WithValue(ctx, bodyKey{}, sent))
	if r.ContentLength != 0 {
		r.Body = sent
	} else {
		none := io.EOF
		sent.err.Store(&none)
	}
	dropUpgrade(r, rule.TunnelIdle > 0)
	g.proxies[rule.Name].ServeHTTP(w, r)
}

// proxy returns the proxy of a rule. Each has its own transport, since the response timeout is the
// rule's.
func (g *Gateway) proxy(rest *url.URL, header config.HeaderName, rule Rule) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(rest)
			r.Out.Host = r.In.Host
			r.Out.Trailer = nil
			r.SetXForwarded()
			r.Out.Header.Set("X-Request-Id", middleware.RequestID(r.In.Context()))
			setCertificate(r.Out.Header, header, r.In.TLS)
		},
		ModifyResponse: func(res *http.Response) error {
			res.Header.Del("X-Request-Id") // the gateway has set its own
			if stream, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
				res.Body = newTunnelBackend(stream, rule.TunnelIdle)
			}
			return nil
		},
		ErrorHandler: g.handleError,
		ErrorLog:     slog.NewLogLogger(g.log.Handler(), slog.LevelInfo),
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ResponseHeaderTimeout: rule.AnswerTimeout,
			ExpectContinueTimeout: 5 * time.Second,
			IdleConnTimeout:       30 * time.Second, // less than the service's own
			MaxIdleConnsPerHost:   64,
			DisableCompression:    true, // forward answers unchanged
			WriteBufferSize:       64 << 10,
			ReadBufferSize:        32 << 10,
		},
	}
}

// handleError answers a request that could not be forwarded.
func (g *Gateway) handleError(w http.ResponseWriter, r *http.Request, err error) {
	sent := r.Context().Value(bodyKey{}).(*body)
	_, large := errors.AsType[*http.MaxBytesError](sent.readError())
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case large:
		g.tooLarge(w, r)
	case sent.timedOut():
		w.Header().Set("Connection", "close")
		reply.JSON(w, http.StatusRequestTimeout, reply.Body{
			Code: "request_timeout", Message: "The next part of the body did not come in time.", Details: map[string]any{},
		})
	case sent.readError() != nil || r.Context().Err() != nil && g.closing.Err() == nil:
		panic(http.ErrAbortHandler) // the client has gone
	default:
		g.log.WarnContext(r.Context(), "the service does not answer", "err", err)
		status := http.StatusBadGateway
		if timeout != nil && timeout.Timeout() {
			status = http.StatusGatewayTimeout
		}
		w.Header().Set("Retry-After", "1")
		reply.JSON(w, status, reply.BodyOf(fault.ErrUnavailable))
	}
}
