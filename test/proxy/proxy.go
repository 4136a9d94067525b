// Package proxy forwards TCP connections for tests, and lets the link fail: it can be cut, stalled
// or slow.
package proxy

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Proxy forwards TCP connections to a server, or to each of several in turn.
type Proxy struct {
	listener net.Listener
	targets  []string
	group    sync.WaitGroup

	mu      sync.Mutex
	link    Link
	changed chan struct{} // closed and replaced when link changes
	conns   map[net.Conn]bool
}

// A Link is the state of the link behind a proxy.
type Link int

// The states of a link.
const (
	Up      Link = iota
	Cut          // connections are closed, new ones included
	Stalled      // connections stay open and transfer nothing
	Slow         // what connections transfer arrives late, by [Delay] give or take a third
)

// Delay is how late what a slow link transfers arrives.
const Delay = 150 * time.Millisecond

// New starts a proxy that ends with t.
func New(t *testing.T, targets ...string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: listener, targets: targets, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Set(Cut)
		p.group.Wait()
	})
	return p
}

// Address returns where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set changes the state of the link.
func (p *Proxy) Set(link Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = link
	close(p.changed)
	p.changed = make(chan struct{})
	if link == Cut {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

func (p *Proxy) accept() {
	for n := 0; ; n++ {
		client, err := p.listener.Accept()
		if err != nil {
			return // the test has ended
		}
		server, err := net.Dial("tcp", p.targets[n%len(p.targets)])
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			_, _ = client.Close(), server.Close()
			continue
		}
		p.group.Go(func() { p.copy(client, server) })
		p.group.Go(func() { p.copy(server, client) })
	}
}

// track registers connections to be closed by a cut. It reports false if the link is cut.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = p.link != Cut
	}
	return p.link != Cut
}

func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.wait()
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil || err != nil {
			return
		}
	}
}

// wait returns when the link transfers what was read.
func (p *Proxy) wait() {
	for {
		p.mu.Lock()
		link, changed := p.link, p.changed
		p.mu.Unlock()
		switch link {
		case Stalled:
			<-changed
			continue
		case Slow:
			<-time.After(Delay*2/3 + rand.N(Delay*2/3))
		}
		return
	}
}
