package middleware_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// A oneConnListener accepts one connection.
type oneConnListener struct {
	conn chan net.Conn
	once sync.Once
}

func (l *oneConnListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConnListener) Close() error {
	l.once.Do(func() { close(l.conn) })
	return nil
}

func (*oneConnListener) Addr() net.Addr { return &net.TCPAddr{} }

// Reading a slow body ends after ten seconds. The deadline does not apply to the work after it.
func TestBufferBodyTakesAtMostTenSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		pace time.Duration // between two bytes
		want error
		text string
	}{
		"fast": {time.Second, nil, "12345"},
		"slow": {3 * time.Second, os.ErrDeadlineExceeded, "1234"}, // after 0, 3, 6 and 9 seconds
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type got struct {
					text string
					took time.Duration
					err  error
				}
				read := make(chan got, 1)
				handler := middleware.Limited(middleware.Limits{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					begun := time.Now()
					middleware.BufferBody(w, r)
					took := time.Since(begun)
					text, err := io.ReadAll(r.Body)
					if err == nil {
						time.Sleep(12 * time.Second)
						err = r.Context().Err()
					}
					read <- got{string(text), took, err}
				}))
				ours, theirs := net.Pipe()
				l := &oneConnListener{conn: make(chan net.Conn, 1)}
				l.conn <- theirs
				server := &http.Server{Handler: handler}
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				go func() { _, _ = io.Copy(io.Discard, ours) }()
				_, err := io.WriteString(ours, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
				require.NoError(t, err)
				for _, b := range "12345" {
					if _, err := io.WriteString(ours, string(b)); err != nil {
						break
					}
					time.Sleep(c.pace)
				}
				g := <-read
				require.Equal(t, c.text, g.text)
				require.ErrorIs(t, g.err, c.want)
				require.LessOrEqual(t, g.took, 10*time.Second)
				require.NoError(t, ours.Close())
				require.NoError(t, server.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
			})
		})
	}
}
