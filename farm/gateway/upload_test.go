package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBodyIsStreamed(t *testing.T) { everyGateway(t, testStreaming) }

func testStreaming(t *testing.T, s *subject) {
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		res, err := s.client(t, s.tlsWith(nil), false).Post("https://"+s.address+job+"?upload=1", "multipart/form-data", in)
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	_, err := out.Write([]byte("1"))
	require.NoError(t, err)
	require.Equal(t, part{'1'}, receive(t, s.service.read), "before the rest was sent")
	_, err = out.Write([]byte("2"))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, receive(t, done))
	require.EqualValues(t, 2, receive(t, s.service.body))
}

// A client that stops sending holds a connection only for the rule's timeout.
func TestSlowBodyTimesOut(t *testing.T) {
	t.Parallel()
	rules := Rules(256 << 20)
	for i := range rules {
		rules[i].IdleTimeout = 100 * time.Millisecond
	}
	s := start(t, rules)
	status, _, body := s.raw(t, "POST "+job+"?upload=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx")
	require.Equal(t, 408, status)
	require.Contains(t, body, "request_timeout")
	require.Less(t, receive(t, s.service.body), int64(1))
}

// So does a client that sends its header slowly, or nothing.
func TestSlowHeaderTimesOut(t *testing.T) { everyGateway(t, testSlowHeader) }

func testSlowHeader(t *testing.T, s *subject) {
	connections := map[string]net.Conn{}
	for _, begun := range []string{"GET /install.sh HTTP/1.1\r\nHost: h\r\nX-A: ", "GET", ""} {
		conn, err := tls.Dial("tcp", s.address, s.tlsWith(nil))
		require.NoError(t, err)
		_, err = io.WriteString(conn, begun)
		require.NoError(t, err)
		connections[begun] = conn
	}
	plain, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	connections["no handshake"] = plain
	for begun, conn := range connections {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
		_, err := io.Copy(io.Discard, conn)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the gateway ends it: %q", begun)
		require.NoError(t, conn.Close())
	}
	require.Empty(t, s.service.seen)
}

// A refused request whose body is never sent is answered at once, though the server would like to
// read the body first.
func TestUnreadBodyIsNotAwaited(t *testing.T) {
	t.Parallel()
	s := start(t, Rules(256<<20))
	for line, want := range map[string]string{
		"POST /internal/runs HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nx":                 "404",
		"POST /internal/runs HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx":     "404",
		"GET /install.sh HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx":                       "413",
		"POST /api/v1/farm/registrations HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\nx": "413",
		"CONNECT 127.0.0.1:4000 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nx":  "404",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", s.address, s.tlsWith(nil))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(waitLimit)))
			_, err = io.WriteString(conn, line)
			require.NoError(t, err)
			answer, err := io.ReadAll(conn)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the gateway ends it: %s", line)
			require.Contains(t, string(answer), "HTTP/1.1 "+want, line)
			require.Empty(t, s.service.seen)
		})
	}
}

func TestOtherPathsLimitBodies(t *testing.T) { everyGateway(t, testBodyLimits) }

func testBodyLimits(t *testing.T, s *subject) {
	for _, c := range []struct {
		line, headers, body string
		status              int
	}{
		{"POST /api/v1/farm/registrations", "Content-Length: 1048577\r\n", "", 413},
		{"POST /api/v1/farm/registrations", "Content-Length: 1048577\r\nExpect: 100-continue\r\n", "", 413},
		{"POST /api/v1/farm/registrations", "Content-Length: 5\r\n", "hello", 200},
		{"GET /install.sh", "Content-Length: 1\r\n", "x", 413},
		{"GET /install.sh", "Transfer-Encoding: chunked\r\n", "9\r\nxxxxxxxxx\r\n0\r\n\r\n", 413},
		{"POST " + job, "Content-Length: 314572801\r\n", "", 413},
		{"GET /internal/runs", "Content-Length: 314572801\r\n", "", 404},
	} {
		if s.program != nil && !s.program.limitsChunked && strings.Contains(c.headers, "chunked") {
			continue
		}
		status, answered, body := s.raw(t, c.line+" HTTP/1.1\r\nHost: h\r\n"+c.headers+"\r\n"+c.body)
		require.Equal(t, c.status, status, c)
		if s.isOwn() && c.status == 413 {
			require.Contains(t, body, "payload_too_large")
			require.Equal(t, "close", answered.Get("Connection"), c)
		}
	}
}

func TestUnreachableService(t *testing.T) {
	t.Parallel()
	rules := Rules(256 << 20)
	for i := range rules {
		rules[i].AnswerTimeout = 50 * time.Millisecond
	}
	s := start(t, rules)
	hanging, url := make(chan struct{}), *s.service.url
	t.Cleanup(func() { close(hanging) })
	s.service.hang = hanging
	status, answered, body := s.raw(t, "GET /install.sh?hang=1 HTTP/1.1\r\nHost: h\r\n\r\n")
	require.Equal(t, 504, status)
	require.Equal(t, "1", answered.Get("Retry-After"))
	require.Contains(t, body, `"code":"unavailable"`)
	require.NotContains(t, body, url.Host)

	url.Host = "127.0.0.1:1"
	s = startBefore(t, rules, &service{url: &url})
	status, _, body = s.raw(t, "GET /install.sh HTTP/1.1\r\nHost: h\r\n\r\n")
	require.Equal(t, 502, status)
	require.NotContains(t, body, url.Host)
}
