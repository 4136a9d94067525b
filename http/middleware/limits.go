package middleware

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits are the limits of a request and its answer. A zero field has the default in its comment.
type Limits struct {
	Body   int64         // largest body in bytes; 16 KiB
	Time   time.Duration // from the request's header to the end of the answer; 30 s
	Policy string        // Content-Security-Policy of the answer; allows nothing

	// Stream is set if the answer is written in pieces for up to Time. HEAD ends it after its header. The
	// handler sets a deadline for each piece with [http.ResponseController].
	Stream bool

	// Hijack is set if the handler takes over the connection, as for a WebSocket. The handler sets
	// all deadlines then.
	Hijack bool
}

const (
	defaultBody   = 16 << 10
	defaultTime   = 30 * time.Second
	defaultPolicy = "default-src 'none'; frame-ancestors 'none'"

	bufferTime  = 10 * time.Second // for [BufferBody]
	maxPrealloc = 64 << 10         // bytes that BufferBody allocates before they arrive
)

// OrDefault returns l with zero fields replaced by the defaults.
func (l Limits) OrDefault() Limits {
	l.Body, l.Time, l.Policy = cmp.Or(l.Body, defaultBody), cmp.Or(l.Time, defaultTime), cmp.Or(l.Policy, defaultPolicy)
	return l
}

// Limited applies limits to requests, and sets restrictive security and caching headers, which a
// handler may override. Reading a too large body fails with [http.MaxBytesError].
func Limited(l Limits, next http.Handler) http.Handler {
	l = l.OrDefault()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(l.Time)
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, l.Body)
		for _, name := range []string{"If-Match", "If-None-Match"} { // lists, of which [http.ServeContent] reads the first line
			if lines := r.Header[name]; len(lines) > 1 {
				r.Header.Set(name, strings.Join(lines, ", "))
			}
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // without https, forms must send their origin
		h.Set("Cache-Control", "no-store")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", l.Policy)

		read, write := deadline, deadline
		if l.Hijack {
			read, write = time.Time{}, time.Time{} // deadlines set here would stay on a hijacked connection
		}
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(read) // fails only if the connection is gone
		_ = c.SetWriteDeadline(write)
		next.ServeHTTP(w, r)
		if l.Time > defaultTime && !l.Hijack { // the server reads the rest of the body, which must not take long
			_ = c.SetReadDeadline(time.Now().Add(defaultTime))
		}
	})
}

// BufferBody reads the body of a request limited by [Limited] into memory, for at most ten seconds, so
// that a slow body does not hold the resources of its request for longer. Reading the body afterwards
// returns what arrived, and then the error, if any.
func BufferBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	c := http.NewResponseController(w)
	deadline, limited := r.Context().Deadline()
	if soon := time.Now().Add(bufferTime); limited && soon.Before(deadline) {
		_ = c.SetReadDeadline(soon)
	}
	var data bytes.Buffer
	data.Grow(int(max(0, min(r.ContentLength, maxPrealloc))) + bytes.MinRead)
	_, err := data.ReadFrom(r.Body)
	if err == nil && limited { // after an error, the server must not wait for the rest
		_ = c.SetReadDeadline(deadline)
	}
	r.Body = &bufferedBody{&data, err}
}

// A bufferedBody is the part of a body that arrived.
type bufferedBody struct {
	data *bytes.Buffer
	err  error // after the data; nil is io.EOF
}

func (b *bufferedBody) Read(p []byte) (int, error) {
	n, err := b.data.Read(p)
	if errors.Is(err, io.EOF) {
		err = cmp.Or(b.err, io.EOF)
	}
	return n, err
}

func (*bufferedBody) Close() error { return nil }
