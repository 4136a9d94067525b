package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// A deadlineWriter sets a deadline for each write of an answer. When the connection is hijacked,
// tunnel is the idle timeout of each direction.
type deadlineWriter struct {
	http.ResponseWriter
	connection   *http.ResponseController
	idle, tunnel time.Duration
}

func (a *deadlineWriter) Write(p []byte) (int, error) {
	_ = a.connection.SetWriteDeadline(time.Now().Add(a.idle)) // fails only if the connection is gone
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (a *deadlineWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Hijack takes over the connection, and sets its idle timeout.
func (a *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := a.connection.Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &tunnelClient{conn, a.tunnel}, buffered, nil
}

// A tunnelClient is the runner's side of a tunnel.
type tunnelClient struct {
	net.Conn
	idleTimeout time.Duration
}

func (c *tunnelClient) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idleTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *tunnelClient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.idleTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// A tunnelBackend is the service's side of a tunnel. It does not support deadlines, so a timer
// closes it.
type tunnelBackend struct {
	io.ReadWriteCloser
	idleTimeout time.Duration
	timer       *time.Timer
}

func newTunnelBackend(stream io.ReadWriteCloser, idleTimeout time.Duration) *tunnelBackend {
	return &tunnelBackend{stream, idleTimeout, time.AfterFunc(idleTimeout, func() { _ = stream.Close() })}
}

func (b *tunnelBackend) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.idleTimeout)
	}
	return n, err
}

func (b *tunnelBackend) Close() error {
	b.timer.Stop()
	return b.ReadWriteCloser.Close()
}
