package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// An answer is written in parts, each of which may take so long, until the connection is
// taken over, in which either side may be silent for as long as tunnel says.
type answer struct {
	http.ResponseWriter
	connection   *http.ResponseController
	idle, tunnel time.Duration
}

func (a *answer) Write(p []byte) (int, error) {
	_ = a.connection.SetWriteDeadline(time.Now().Add(a.idle)) // only a connection that is gone refuses
	return a.ResponseWriter.Write(p)
}

// Unwrap leads [http.ResponseController] to the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Hijack takes the connection over.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := a.connection.Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &client{conn, a.tunnel}, buffered, nil
}

// A client is a runner's side of a tunnel.
type client struct {
	net.Conn
	silence time.Duration
}

func (c *client) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *client) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// A backend is the service's side of a tunnel. It has no deadlines, and is closed instead.
type backend struct {
	io.ReadWriteCloser
	silence time.Duration
	timer   *time.Timer
}

func newBackend(stream io.ReadWriteCloser, silence time.Duration) *backend {
	return &backend{stream, silence, time.AfterFunc(silence, func() { _ = stream.Close() })}
}

func (b *backend) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.silence)
	}
	return n, err
}

func (b *backend) Close() error {
	b.timer.Stop()
	return b.ReadWriteCloser.Close()
}
