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

// A Gateway is the handler of all that reaches the farm's public address. Use New.
type Gateway struct {
	rules   []Rule
	proxies map[string]*httputil.ReverseProxy // by the rule's name
	log     *slog.Logger

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup // requests and tunnels
	ending context.Context
	end    context.CancelFunc
}

// New returns a gateway that hands what rules let through to the service at rest, with
// runners' certificates in header.
func New(rest *url.URL, header config.HeaderName, rules []Rule, log *slog.Logger) *Gateway {
	g := &Gateway{rules: rules, proxies: map[string]*httputil.ReverseProxy{}, log: log}
	g.ending, g.end = context.WithCancel(context.Background())
	for _, rule := range rules {
		g.proxies[rule.Name] = g.proxy(rest, header, rule)
	}
	return g
}

// Close ends all tunnels, which a server that stops does not, and whatever else has not
// ended, and waits until it has. Requests that come later are refused.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.end()
	g.open.Wait()
	for _, p := range g.proxies {
		p.Transport.(*http.Transport).CloseIdleConnections()
	}
}

func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.open.Add(1)
	}
	return !g.closed
}

var (
	errNone     = fault.New(fault.NotFound, "not_found", "There is nothing here.")
	errTooLarge = fault.New(fault.TooLarge, "payload_too_large", "The body is larger than this path takes.")
)

func refuse(w http.ResponseWriter, f *fault.Fault) { reply.JSON(w, f.Kind.Status(), reply.BodyOf(f)) }

// ServeHTTP lets a request through, or refuses it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		w.Header().Set("Connection", "close")
		refuse(w, fault.ErrUnavailable)
		return
	}
	defer g.open.Done()
	rule, ok := Match(g.rules, r.Method, r.RequestURI)
	out := &answer{w, http.NewResponseController(w), rule.Idle, rule.Tunnel}
	if !ok {
		out.idle = usual
		leave(out, r)
		refuse(out, errNone)
		return
	}
	middleware.Route(r.Context(), r.Method, rule.Name)
	if r.ContentLength > rule.Body {
		g.tooLarge(out, r)
		return
	}
	g.forward(out, r, rule)
}

func (g *Gateway) tooLarge(w http.ResponseWriter, r *http.Request) {
	leave(w, r)
	refuse(w, errTooLarge)
}

// leave has the server answer without the body, which nobody reads, and not wait for it for long
// after that.
func leave(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftover)) // only a connection that is gone refuses
	}
}

type bodyKey struct{}

func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, rule Rule) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.ending, cancel)()
	sent := newBody(w, r, rule)
	defer sent.done()
	r = r.Clone(context.WithValue(ctx, bodyKey{}, sent))
	if r.ContentLength != 0 {
		r.Body = sent
	} else {
		none := io.EOF
		sent.err.Store(&none)
	}
	keepUpgrade(r, rule.Tunnel > 0)
	g.proxies[rule.Name].ServeHTTP(w, r)
}

// proxy has a transport of its own, because how long an answer may take is the rule's.
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
			res.Header.Del("X-Request-Id") // ours is there
			if stream, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
				res.Body = newBackend(stream, rule.Tunnel)
			}
			return nil
		},
		ErrorHandler: g.failed,
		ErrorLog:     slog.NewLogLogger(g.log.Handler(), slog.LevelInfo),
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ResponseHeaderTimeout: rule.Answer,
			ExpectContinueTimeout: 5 * time.Second,
			IdleConnTimeout:       30 * time.Second, // less than the service's
			MaxIdleConnsPerHost:   64,
			DisableCompression:    true, // an answer is handed on as it is
			WriteBufferSize:       64 << 10,
			ReadBufferSize:        32 << 10,
		},
	}
}

// failed answers where there is nothing to hand on.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	sent := r.Context().Value(bodyKey{}).(*body)
	_, large := errors.AsType[*http.MaxBytesError](sent.failed())
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case large:
		g.tooLarge(w, r)
	case sent.late():
		w.Header().Set("Connection", "close")
		reply.JSON(w, http.StatusRequestTimeout, reply.Body{
			Code: "request_timeout", Message: "The next part of the body did not come in time.", Details: map[string]any{},
		})
	case sent.failed() != nil || r.Context().Err() != nil && g.ending.Err() == nil:
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
