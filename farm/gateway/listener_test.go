package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// connect opens a connection from a local address, and sends nothing.
func (s *subject) connect(t *testing.T, from string) (net.Conn, error) {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", s.address)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(waitLimit)))
	}
	return conn, err
}

func (s *subject) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	conn, err := s.connect(t, from)
	require.NoError(t, err)
	return conn
}

// handshake makes a TLS request on a connection, and returns why that failed.
func (s *subject) handshake(conn net.Conn) error {
	cfg := s.tlsWith(nil)
	cfg.ServerName = "127.0.0.1"
	c := tls.Client(conn, cfg)
	if _, err := io.WriteString(c, "GET /install.sh HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200")))
	return err
}

// requireRefused checks that the gateway accepts no connection from a local address.
func (s *subject) requireRefused(t *testing.T, from string) {
	t.Helper()
	conn, err := s.connect(t, from)
	if err == nil { // it may be closed before it is seen
		err = s.handshake(conn)
	}
	requireEnded(t, err)
}

// requireEnded checks that the gateway closed a connection.
func requireEnded(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), err)
}

func (s *subject) requireUsage(t *testing.T, connections, handshakes int) {
	t.Helper()
	require.Eventually(t, func() bool {
		u := s.listener.Usage()
		return u.Connections == connections && u.Handshakes == handshakes
	}, waitLimit, time.Millisecond, "%+v", s.listener.Usage())
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Connections: 4, PerAddress: 3, Handshakes: 100, HandshakeTimeout: waitLimit}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.DiscardHandler)
	var open []net.Conn
	for range 3 {
		conn := s.dial(t, "127.0.0.1")
		require.NoError(t, s.handshake(conn))
		open = append(open, conn)
	}
	s.requireRefused(t, "127.0.0.1")
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.2")), "another address")
	s.requireRefused(t, "127.0.0.3")
	require.Equal(t, map[string]int64{"connections": 1, "address": 1, "handshakes": 0}, s.listener.Usage().Refused)

	require.NoError(t, open[0].Close())
	s.requireUsage(t, 3, 0)
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.1")), "a place was given back")
}

// A tunnel counts as a connection until it ends.
func TestTunnelsAreBounded(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Connections: 1, PerAddress: 1, Handshakes: 100, HandshakeTimeout: waitLimit}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.DiscardHandler)
	agent := s.agent(t, nil)
	echo(t, agent, websocket.TextMessage, "hello")
	s.requireRefused(t, "127.0.0.1")
	echo(t, agent, websocket.TextMessage, "still here")
	require.NoError(t, agent.Close())
	s.requireUsage(t, 0, 0)
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.1")))
}

// Unfinished handshakes do not block those of others.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Connections: 100, PerAddress: 100, Handshakes: 8, HandshakeTimeout: waitLimit}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.DiscardHandler)
	silent := []net.Conn{s.dial(t, "127.0.0.1"), s.dial(t, "127.0.0.1")}
	_, err := silent[1].Write([]byte{22, 3, 1, 2, 0, 1}) // a quarter of a hello
	require.NoError(t, err)
	s.requireRefused(t, "127.0.0.1")
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.2")))
	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		silent = append(silent, s.dial(t, from), s.dial(t, from))
	}
	s.requireUsage(t, 9, 8)
	s.requireRefused(t, "127.0.0.5")
	require.Equal(t, map[string]int64{"connections": 0, "address": 0, "handshakes": 2}, s.listener.Usage().Refused)
	for _, conn := range silent {
		require.NoError(t, conn.Close())
	}
	s.requireUsage(t, 1, 0)
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.1")))
	require.EqualValues(t, 8, s.listener.Usage().Failed)
}

func TestSlowHandshakeTimesOut(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Connections: 9, PerAddress: 9, Handshakes: 9, HandshakeTimeout: 50 * time.Millisecond}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.DiscardHandler)
	conn := s.dial(t, "127.0.0.1")
	_, err := conn.Read(make([]byte, 1))
	requireEnded(t, err)
	s.requireUsage(t, 0, 0)
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	require.Empty(t, s.listener.byAddress, "addresses that have nothing are forgotten")
}

// Plain HTTP, port scans and clients that do not trust the certificate do not fill the log.
func TestFailedConnectionsAreLoggedRarely(t *testing.T) {
	t.Parallel()
	log := new(lines)
	bounds := Bounds{Connections: 9, PerAddress: 1, Handshakes: 9, HandshakeTimeout: waitLimit}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.NewTextHandler(log, nil))
	for range 20 {
		conn := s.dial(t, "127.0.0.1")
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		s.requireUsage(t, 0, 0)
	}
	require.NoError(t, s.handshake(s.dial(t, "127.0.0.1")))
	for range 20 {
		s.requireRefused(t, "127.0.0.1")
	}
	require.EqualValues(t, 20, s.listener.Usage().Failed)
	require.EqualValues(t, 20, s.listener.Usage().Refused["address"])
	require.Equal(t, 1, strings.Count(log.String(), "a TLS handshake failed"))
	require.Equal(t, 1, strings.Count(log.String(), "connections are refused"))
	require.Contains(t, log.String(), "full=address address=127.0.0.1:")
}

// A lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Close does not wait for handshakes.
func TestCloseEndsHandshakes(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Connections: 9, PerAddress: 9, Handshakes: 9, HandshakeTimeout: 10 * waitLimit}
	s := startWithin(t, Rules(1), newService(t), bounds, slog.DiscardHandler)
	conn := s.dial(t, "127.0.0.1")
	s.requireUsage(t, 1, 1)
	s.stop()
	s.requireUsage(t, 0, 0)
	_, err := conn.Read(make([]byte, 1))
	requireEnded(t, err)
	_, err = s.listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// The HTTP server retries temporary errors, such as too many open files.
func TestAcceptErrorsAreReturned(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	failing := &failing{Listener: inner, errs: make(chan error, 1)}
	failing.errs <- os.ErrProcessDone
	bounds := Bounds{Connections: 1, PerAddress: 1, Handshakes: 1, HandshakeTimeout: waitLimit}
	l := NewListener(failing, &tls.Config{}, bounds, slog.New(slog.DiscardHandler))
	_, err = l.Accept()
	require.ErrorIs(t, err, os.ErrProcessDone)
	require.NoError(t, l.Close())
}

// A failing listener returns errors before connections.
type failing struct {
	net.Listener
	errs chan error
}

func (f *failing) Accept() (net.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, err
	default:
		return f.Listener.Accept()
	}
}

func TestAddressPrefixes(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32", "[2001:db8:0:1:2:3:4:5]:1": "2001:db8:0:1::/64",
		"[2001:db8:0:1:ffff::]:2": "2001:db8:0:1::/64", "[fe80::1%eth0]:1": "fe80::/64", "[::1]:1": "::/64",
	} {
		require.Equal(t, want, addressPrefix(text(address)).String(), address)
	}
	require.False(t, addressPrefix(text("@")).IsValid(), "a Unix socket")
}

type text string

func (text) Network() string  { return "tcp" }
func (t text) String() string { return string(t) }

// One HTTP/2 connection can carry many requests.
func TestHTTP2StreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, Rules(1))
	cfg := s.tlsWith(nil)
	cfg.NextProtos = []string{"h2"}
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", s.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	frames := http2.NewFramer(conn, conn)
	require.NoError(t, frames.WriteSettings())
	for {
		frame, err := frames.ReadFrame()
		require.NoError(t, err)
		if settings, ok := frame.(*http2.SettingsFrame); ok {
			most, ok := settings.Value(http2.SettingMaxConcurrentStreams)
			require.True(t, ok)
			require.EqualValues(t, 32, most)
			return
		}
	}
}
