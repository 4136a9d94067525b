package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds limit the connections of a gateway. A connection over a limit is closed before a byte of
// it is read.
type Bounds struct {
	Connections      int           // in total
	PerAddress       int           // from one address; an IPv6 /64 counts as one address
	Handshakes       int           // concurrent TLS handshakes; one address may have a quarter of them
	HandshakeTimeout time.Duration // timeout of a handshake
}

// Usage is the current use of a [Listener], and counters of what it has refused.
type Usage struct {
	Connections, Handshakes int
	Refused                 map[string]int64 // refused connections, by the limit: connections, address, handshakes
	Failed                  int64            // failed handshakes, including timeouts
}

// Limits by the names that [Usage] and the log use.
const (
	connectionsFull = "connections"
	addressFull     = "address"
	handshakesFull  = "handshakes"
)

// logEvery is the interval at which refused connections, and failed handshakes, are logged at most.
const logEvery = 10 * time.Second

// A Listener accepts connections within bounds and completes their TLS handshakes before the server
// sees them. Unfinished handshakes therefore occupy none of the server's resources.
type Listener struct {
	inner  net.Listener
	tls    *tls.Config
	bounds Bounds
	log    *slog.Logger

	ready   chan accepted
	closing context.Context
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // the accept loop and handshakes
	refusal rate.Sometimes
	failure rate.Sometimes

	mu        sync.Mutex
	used      Usage
	byAddress map[netip.Prefix]addressUsage
}

// An addressUsage is the use of one address.
type addressUsage struct{ connections, handshakes int }

type accepted struct {
	conn net.Conn
	err  error
}

// NewListener returns a listener that accepts connections of ln. Closing it closes ln.
func NewListener(ln net.Listener, cfg *tls.Config, bounds Bounds, log *slog.Logger) *Listener {
	l := &Listener{
		inner: ln, tls: cfg, bounds: bounds, log: log, ready: make(chan accepted), byAddress: map[netip.Prefix]addressUsage{},
		refusal: rate.Sometimes{Interval: logEvery}, failure: rate.Sometimes{Interval: logEvery},
		used: Usage{Refused: map[string]int64{connectionsFull: 0, addressFull: 0, handshakesFull: 0}},
	}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.tasks.Go(l.run)
	return l
}

// Accept returns the next connection that has completed its handshake, a [*tls.Conn].
func (l *Listener) Accept() (net.Conn, error) {
	if l.closing.Err() != nil {
		return nil, net.ErrClosed
	}
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.closing.Done():
		return nil, net.ErrClosed
	}
}

// Addr returns the address that it listens on.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close aborts handshakes. Connections returned by Accept stay open.
func (l *Listener) Close() error {
	l.cancel()
	err := l.inner.Close()
	l.tasks.Wait()
	return err
}

// Usage returns the current usage.
func (l *Listener) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.used
	u.Refused = maps.Clone(l.used.Refused)
	return u
}

func (l *Listener) run() {
	for l.closing.Err() == nil {
		conn, err := l.inner.Accept()
		if err != nil { // the server retries temporary errors
			l.deliver(accepted{err: err})
			continue
		}
		c := &connection{Conn: conn, listener: l, from: addressPrefix(conn.RemoteAddr())}
		if why := l.admit(c.from); why != "" {
			l.refuse(conn, why)
			continue
		}
		l.tasks.Go(func() { l.handshake(c) })
	}
}

// deliver passes a to Accept, and reports whether it was taken before the listener closed.
func (l *Listener) deliver(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.closing.Done():
		return false
	}
}

func (l *Listener) handshake(c *connection) {
	conn := tls.Server(c, l.tls)
	ctx, cancel := context.WithTimeout(l.closing, l.bounds.HandshakeTimeout)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	l.endHandshake(c.from, err)
	if err != nil && l.closing.Err() == nil {
		l.failure.Do(func() {
			l.log.Info("a TLS handshake failed", "address", c.RemoteAddr().String(), "err", err, "failed", l.Usage().Failed)
		})
	}
	if err != nil || !l.deliver(accepted{conn: conn}) {
		_ = c.Close()
	}
}

// refuse resets the connection, so that the kernel keeps no state for it. After an orderly close it
// would for a minute.
func (l *Listener) refuse(conn net.Conn, why string) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
	l.refusal.Do(func() {
		l.log.Warn("connections are refused", "full", why, "address", conn.RemoteAddr().String(), "refused", l.Usage().Refused)
	})
}

// admit counts a connection and its handshake, or returns the limit that is reached.
func (l *Listener) admit(from netip.Prefix) (full string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, known := l.byAddress[from], from.IsValid()
	switch {
	case l.used.Connections >= l.bounds.Connections:
		full = connectionsFull
	case known && a.connections >= l.bounds.PerAddress:
		full = addressFull
	case l.used.Handshakes >= l.bounds.Handshakes || known && a.handshakes >= max(1, l.bounds.Handshakes/4):
		full = handshakesFull
	}
	if full != "" {
		l.used.Refused[full]++
		return full
	}
	l.used.Connections++
	l.used.Handshakes++
	l.byAddress[from] = addressUsage{a.connections + 1, a.handshakes + 1}
	return ""
}

// endHandshake uncounts a handshake.
func (l *Listener) endHandshake(from netip.Prefix, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Handshakes--
	if err != nil {
		l.used.Failed++
	}
	a := l.byAddress[from]
	a.handshakes--
	l.setUsage(from, a)
}

// release uncounts a connection.
func (l *Listener) release(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Connections--
	a := l.byAddress[from]
	a.connections--
	l.setUsage(from, a)
}

// setUsage stores the usage of an address, and forgets an address without any. The connection of a
// failed handshake may be closed before the handshake is uncounted.
func (l *Listener) setUsage(from netip.Prefix, a addressUsage) {
	if a == (addressUsage{}) {
		delete(l.byAddress, from)
		return
	}
	l.byAddress[from] = a
}

// addressPrefix returns the prefix that counts as one address: a single IPv4 address, or an IPv6
// /64, which usually belongs to one party. It is invalid for addresses without an IP, such as Unix
// sockets.
func addressPrefix(addr net.Addr) netip.Prefix {
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := parsed.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // cannot fail for these lengths
	return prefix
}

// A connection is counted until it is closed.
type connection struct {
	net.Conn
	listener *Listener
	from     netip.Prefix
	once     sync.Once
}

// Close closes the connection and uncounts it.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.listener.release(c.from) })
	return err
}
