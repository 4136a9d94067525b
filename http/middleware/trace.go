// Package middleware wraps the handlers of every service: it gives each request an id, a log line
// and limits, and reports it to metrics.
package middleware

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/reply"
	"svc/input"
)

type requestIDKey struct{}

// RequestID returns the id of the request of ctx, "" if there is none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Traced gives each request an id, the caller's own if it is well-formed, and one log line. A panic
// is answered with a generic 500, or aborts the answer if that has begun.
func Traced(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := r.Header.Get("X-Request-Id")
		if !input.RequestID(id) {
			id = events.NewID(start).String()
		}
		w.Header().Set("X-Request-Id", id)
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		answer := &recorder{ResponseWriter: w}
		defer func() {
			v := recover()
			if err, _ := v.(error); v != nil && !errors.Is(err, http.ErrAbortHandler) {
				SetFailed(r.Context())
				log.ErrorContext(r.Context(), "panic", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				if answer.status == 0 {
					reply.JSON(answer, http.StatusInternalServerError, reply.BodyOf(fault.ErrInternal))
					v = nil
				}
			}
			if v == nil && answer.status == 0 {
				answer.status = http.StatusOK // what the server sends if the handler wrote nothing
			}
			level := slog.LevelInfo
			if strings.HasPrefix(r.URL.Path, "/health") && answer.status < 400 { // probes come every few seconds
				level = slog.LevelDebug
			}
			log.Log(r.Context(), level, "request", "method", input.MaskTokens(r.Method), "path", input.MaskTokens(r.URL.Path),
				"status", answer.status,
				"ip", Address(r), "ms", time.Since(start).Milliseconds(), "bytes", answer.bytes)
			if v != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(answer, r)
	})
}

// A recorder records the status and size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (s *recorder) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *recorder) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	n, err := s.ResponseWriter.Write(p)
	s.bytes += int64(n)
	return n, err
}

// Hijack takes over the connection, which counts as status 101.
func (s *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err == nil && s.status == 0 {
		s.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap is for [http.ResponseController].
func (s *recorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// A Logger is a log handler that adds the request's id to each line.
type Logger struct{ slog.Handler }

// Handle implements [slog.Handler].
func (l Logger) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l Logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Logger{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (l Logger) WithGroup(name string) slog.Handler { return Logger{l.Handler.WithGroup(name)} }
