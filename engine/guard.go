package engine

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"svc/config"
)

// guarded lets a request below /internal pass if it carries the secret.
// Hashes are compared, so that the time taken says nothing about the secret's
// length either.
func guarded(secret config.Secret, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(secret.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/internal" || strings.HasPrefix(r.URL.Path, "/internal/") {
			got := sha256.Sum256([]byte(bearer(r)))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(errKey)(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the key of the request, or "" if it has none.
func bearer(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return key
}

// limited bounds the size and the duration of every request.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(maxDuration)
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(deadline) // only a connection that is gone refuses
		_ = c.SetWriteDeadline(deadline)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// recovered turns a panic into a 500 that says nothing and a line in the log.
// An answer that had begun is broken off instead.
func recovered(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := &begun{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			log.ErrorContext(r.Context(), "panic", "method", r.Method, "path", r.URL.Path,
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if begun.yes {
				panic(http.ErrAbortHandler)
			}
			refuse(errInternal)(w, r)
		}()
		next.ServeHTTP(begun, r)
	})
}

// A begun notices that an answer has begun.
type begun struct {
	http.ResponseWriter
	yes bool
}

func (b *begun) WriteHeader(status int) {
	b.yes = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.ResponseWriter.Write(p)
}

// Unwrap leads http.ResponseController to the connection.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }
