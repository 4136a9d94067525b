package api

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy forwards TCP connections to a database, or to each of several in turn, and can cut or stall them.
type proxy struct {
	listener net.Listener
	targets  []string
	group    sync.WaitGroup

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed and replaced when state changes
	conns   map[net.Conn]bool
}

type linkState int

const (
	linkUp      linkState = iota
	linkCut               // connections are closed, new ones included
	linkStalled           // connections stay open and transfer nothing
)

func newProxy(t *testing.T, targets ...string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, targets: targets, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(linkCut)
		p.group.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) set(state linkState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	close(p.changed)
	p.changed = make(chan struct{})
	if state == linkCut {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

func (p *proxy) accept() {
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
func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = p.state != linkCut
	}
	return p.state != linkCut
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.waitWhileStalled()
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil || err != nil {
			return
		}
	}
}

// waitWhileStalled returns when the link is not stalled.
func (p *proxy) waitWhileStalled() {
	for {
		p.mu.Lock()
		state, changed := p.state, p.changed
		p.mu.Unlock()
		if state != linkStalled {
			return
		}
		<-changed
	}
}
