package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// A body is a request's body with a size limit and a deadline for each read.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	idle       time.Duration

	// Atomic, since the transport may still read while the handler answers.
	err atomic.Pointer[error]
	due atomic.Pointer[time.Time] // deadline of the current or last read
}

func newBody(w http.ResponseWriter, r *http.Request, rule Rule) *body {
	return &body{
		ReadCloser: http.MaxBytesReader(w, r.Body, rule.MaxBody), connection: http.NewResponseController(w), idle: rule.IdleTimeout,
	}
}

func (b *body) Read(p []byte) (int, error) {
	due := time.Now().Add(b.idle)
	b.due.Store(&due)
	_ = b.connection.SetReadDeadline(due) // fails only if the connection is gone
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err.CompareAndSwap(nil, &err)
	}
	if errors.Is(err, io.EOF) { // the server goes on reading, to notice when the client leaves
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

// readError returns why the body could not be read to its end, or nil.
func (b *body) readError() error {
	if err := b.err.Load(); err != nil && !errors.Is(*err, io.EOF) {
		return *err
	}
	return nil
}

// timedOut reports whether a read timed out. The server may report that the client has gone before
// Read has returned.
func (b *body) timedOut() bool {
	due := b.due.Load()
	return errors.Is(b.readError(), os.ErrDeadlineExceeded) || due != nil && b.err.Load() == nil && !time.Now().Before(*due)
}

// done limits how long the server waits for the rest of a body that was not read.
func (b *body) done() {
	if err := b.err.Load(); err == nil || !errors.Is(*err, io.EOF) {
		_ = b.connection.SetReadDeadline(time.Now().Add(drainTimeout))
	}
}

const drainTimeout = 5 * time.Second
