package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// A body is that of a request, in which each part may take so long and all of which may
// have so many bytes.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	idle       time.Duration

	// The transport reads while the handler may already answer.
	err atomic.Pointer[error]
	due atomic.Pointer[time.Time] // when the part that is being read must have come
}

func newBody(w http.ResponseWriter, r *http.Request, rule Rule) *body {
	return &body{
		ReadCloser: http.MaxBytesReader(w, r.Body, rule.Body), connection: http.NewResponseController(w), idle: rule.Idle,
	}
}

func (b *body) Read(p []byte) (int, error) {
	due := time.Now().Add(b.idle)
	b.due.Store(&due)
	_ = b.connection.SetReadDeadline(due) // only a connection that is gone refuses
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err.CompareAndSwap(nil, &err)
	}
	if errors.Is(err, io.EOF) { // the server reads on, to see whether the client leaves
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// failed returns why the body could not be read to its end.
func (b *body) failed() error {
	if err := b.err.Load(); err != nil && !errors.Is(*err, io.EOF) {
		return *err
	}
	return nil
}

// late reports whether a part did not come in time. The server may say that the client
// has gone before Read has returned.
func (b *body) late() bool {
	due := b.due.Load()
	return errors.Is(b.failed(), os.ErrDeadlineExceeded) || due != nil && b.err.Load() == nil && !time.Now().Before(*due)
}

// done has the server not wait for long for what is left of a body that nobody reads.
func (b *body) done() {
	if err := b.err.Load(); err == nil || !errors.Is(*err, io.EOF) {
		_ = b.connection.SetReadDeadline(time.Now().Add(leftover))
	}
}

const leftover = 5 * time.Second
