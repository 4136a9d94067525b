package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds are how many connections a gateway has. What is over is closed before a byte of it is read.
type Bounds struct {
	Connections int           // at once
	PerAddress  int           // of them from one address; those of an IPv6 /64 are one
	Handshakes  int           // of TLS at once, a quarter of them from one address
	Handshake   time.Duration // how long one may take
}

// Usage is what a [Listener] has now, and what it has refused.
type Usage struct {
	Connections, Handshakes int
	Refused                 map[string]int64 // connections, by what was full: connections, address, handshakes
	Failed                  int64            // handshakes, those that took too long among them
}

// Words of [Usage], and of the log.
const (
	allTaken        = "connections"
	addressTaken    = "address"
	handshakesTaken = "handshakes"
)

// How often the log says that connections are refused, and that handshakes fail.
const sayAgain = 10 * time.Second

// A Listener accepts connections within bounds and hands on those that speak TLS. A server that has
// it does no handshakes of its own: so nobody's half of one takes a place of those who have finished.
type Listener struct {
	inner  net.Listener
	tls    *tls.Config
	bounds Bounds
	log    *slog.Logger

	ready   chan accepted
	closing context.Context
	cancel  context.CancelFunc
	group   sync.WaitGroup // the loop that accepts, and handshakes
	refusal rate.Sometimes
	failure rate.Sometimes

	mu   sync.Mutex
	used Usage
	from map[netip.Prefix]taken
}

// taken is what one address has.
type taken struct{ connections, handshakes int }

type accepted struct {
	conn net.Conn
	err  error
}

// NewListener accepts connections of ln, which it closes, until it is closed itself.
func NewListener(ln net.Listener, cfg *tls.Config, bounds Bounds, log *slog.Logger) *Listener {
	l := &Listener{
		inner: ln, tls: cfg, bounds: bounds, log: log, ready: make(chan accepted), from: map[netip.Prefix]taken{},
		refusal: rate.Sometimes{Interval: sayAgain}, failure: rate.Sometimes{Interval: sayAgain},
		used: Usage{Refused: map[string]int64{allTaken: 0, addressTaken: 0, handshakesTaken: 0}},
	}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.group.Go(l.run)
	return l
}

// Accept returns a connection after its handshake, a [*tls.Conn].
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

// Addr is where it listens.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close ends handshakes, and leaves connections that were handed on.
func (l *Listener) Close() error {
	l.cancel()
	err := l.inner.Close()
	l.group.Wait()
	return err
}

// Usage returns what there is now.
func (l *Listener) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.used
	u.Refused = make(map[string]int64, len(l.used.Refused))
	for why, n := range l.used.Refused {
		u.Refused[why] = n
	}
	return u
}

func (l *Listener) run() {
	for l.closing.Err() == nil {
		conn, err := l.inner.Accept()
		if err != nil { // the server knows which errors pass, and asks again
			l.hand(accepted{err: err})
			continue
		}
		c := &connection{Conn: conn, listener: l, from: network(conn.RemoteAddr())}
		if why := l.enter(c.from); why != "" {
			l.refuse(conn, why)
			continue
		}
		l.group.Go(func() { l.handshake(c) })
	}
}

// hand gives a to the server, and reports whether that took it.
func (l *Listener) hand(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.closing.Done():
		return false
	}
}

func (l *Listener) handshake(c *connection) {
	conn := tls.Server(c, l.tls)
	ctx, cancel := context.WithTimeout(l.closing, l.bounds.Handshake)
	defer cancel()
	err := conn.HandshakeContext(ctx)
	l.shaken(c.from, err)
	if err != nil && l.closing.Err() == nil {
		l.failure.Do(func() {
			l.log.Info("a TLS handshake failed", "address", c.RemoteAddr().String(), "err", err, "failed", l.Usage().Failed)
		})
	}
	if err != nil || !l.hand(accepted{conn: conn}) {
		_ = c.Close()
	}
}

// refuse has the kernel forget the connection: it keeps those that end in good order for a minute.
func (l *Listener) refuse(conn net.Conn, why string) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
	l.refusal.Do(func() {
		l.log.Warn("connections are refused", "full", why, "address", conn.RemoteAddr().String(), "refused", l.Usage().Refused)
	})
}

// enter takes a place, and one of a handshake, or says of what there is none.
func (l *Listener) enter(from netip.Prefix) (full string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, known := l.from[from], from.IsValid()
	switch {
	case l.used.Connections >= l.bounds.Connections:
		full = allTaken
	case known && a.connections >= l.bounds.PerAddress:
		full = addressTaken
	case l.used.Handshakes >= l.bounds.Handshakes || known && a.handshakes >= max(1, l.bounds.Handshakes/4):
		full = handshakesTaken
	}
	if full != "" {
		l.used.Refused[full]++
		return full
	}
	l.used.Connections++
	l.used.Handshakes++
	l.from[from] = taken{a.connections + 1, a.handshakes + 1}
	return ""
}

// shaken gives the place of a handshake back.
func (l *Listener) shaken(from netip.Prefix, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Handshakes--
	if err != nil {
		l.used.Failed++
	}
	a := l.from[from]
	a.handshakes--
	l.keep(from, a)
}

func (l *Listener) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Connections--
	a := l.from[from]
	a.connections--
	l.keep(from, a)
}

// keep forgets addresses that have nothing. A handshake that is broken off closes its connection
// before it ends.
func (l *Listener) keep(from netip.Prefix, a taken) {
	if a == (taken{}) {
		delete(l.from, from)
		return
	}
	l.from[from] = a
}

// network is what counts as one address: of IPv6 a /64, of which whoever has one has all. It is not
// valid where there is no address, as of a Unix socket.
func network(addr net.Addr) netip.Prefix {
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := parsed.Addr().Unmap().WithZone(""), 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits) // no address is shorter
	return prefix
}

// A connection has a place until it is closed.
type connection struct {
	net.Conn
	listener *Listener
	from     netip.Prefix
	once     sync.Once
}

// Close closes it and gives its place back.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.listener.leave(c.from) })
	return err
}
