package middleware

import (
	"context"
	"net/http"
	"time"

	"svc/http/reply"
)

// maxDuration is how long a request may take from its header to its answer.
const maxDuration = 30 * time.Second

// Bounded bounds the duration and the body of every request, and sets the
// headers that keep browsers from doing anything unasked with an answer, such
// as to keep it: a handler whose answers may be kept says so.
func Bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(maxDuration)
		ctx, cancel := context.WithDeadline(context.WithValue(r.Context(), connectionKey{}, r.Context()), deadline)
		defer cancel()
		r = r.WithContext(ctx)
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(deadline) // only a connection that is gone refuses
		_ = c.SetWriteDeadline(deadline)
		r.Body = http.MaxBytesReader(w, r.Body, reply.MaxBody)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// connectionKey leads to the context that ends when the caller goes away.
type connectionKey struct{}

// Extend gives a request of [Bounded] another limit, from now on. The context
// that it returns has the values of ctx; it also ends when the caller goes away.
func Extend(ctx context.Context, w http.ResponseWriter, limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	connection, ok := ctx.Value(connectionKey{}).(context.Context)
	if !ok {
		connection = ctx
	}
	stop := context.AfterFunc(connection, cancel)
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // the server goes on to read, to notice that the caller has gone
	_ = c.SetWriteDeadline(time.Now().Add(limit))
	return longer, func() { stop(); cancel() }
}
