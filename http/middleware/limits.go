package middleware

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// Limits are the limits of a request and its answer. A zero field has the default in its comment.
type Limits struct {
	Body   int64         // largest body in bytes; 1 MiB
	Time   time.Duration // from the request's header to the end of the answer; 30 s
	Policy string        // Content-Security-Policy of the answer; allows nothing

	// Stream is set if the answer is written in pieces for up to Time. HEAD is not allowed then. The
	// handler sets a deadline for each piece with [http.ResponseController].
	Stream bool

	// Hijack is set if the handler takes over the connection, as for a WebSocket. The handler sets
	// all deadlines then.
	Hijack bool
}

const (
	defaultBody   = 1 << 20
	defaultTime   = 30 * time.Second
	defaultPolicy = "default-src 'none'; frame-ancestors 'none'"
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
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
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
