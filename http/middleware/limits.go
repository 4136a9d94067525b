package middleware

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// Limits are what a request may take, and what a browser may do with its answer. Of a
// field that is zero the default holds.
type Limits struct {
	Body   int64         // bytes of its body; 1 MiB
	Time   time.Duration // from its header to the end of its answer; 30 s
	Policy string        // Content-Security-Policy of the answer; nothing is allowed

	// Stream is set where the answer is written bit by bit for as long as Time lets it,
	// and nobody may ask for its header alone. How long a reader may take over a part
	// the handler says with [http.ResponseController].
	Stream bool

	// Hijack is set where the handler takes the connection over, as for a WebSocket.
	// It has no deadlines then but those of the handler.
	Hijack bool
}

const (
	maxBody = 1 << 20
	maxTime = 30 * time.Second
	policy  = "default-src 'none'; frame-ancestors 'none'"
)

// OrDefault returns l with the defaults in the place of what is zero.
func (l Limits) OrDefault() Limits {
	l.Body, l.Time, l.Policy = cmp.Or(l.Body, maxBody), cmp.Or(l.Time, maxTime), cmp.Or(l.Policy, policy)
	return l
}

// Limited holds requests to limits, and sets the headers that keep browsers from doing
// anything unasked with an answer, such as to keep it: a handler whose answers may be
// kept says so. A body that is too large ends with [http.MaxBytesError].
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
			read, write = time.Time{}, time.Time{} // a connection that is taken over keeps what is set here
		}
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(read) // only a connection that is gone refuses
		_ = c.SetWriteDeadline(write)
		next.ServeHTTP(w, r)
		if l.Time > maxTime && !l.Hijack { // what is left of the body is still read, and nobody waits for that for long
			_ = c.SetReadDeadline(time.Now().Add(maxTime))
		}
	})
}
