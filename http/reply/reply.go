// Package reply writes answers, with the same body for all errors, and checks what every request
// must satisfy.
package reply

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"svc/fault"
)

// A Body is the body of every error. Details is never null.
type Body struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// JSON answers with a status and v as JSON.
func JSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the type is a bug
	}
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails only if the caller has gone
}

// Error answers with the fault that err wraps. Any other error is logged and answered with a
// generic 500 or 503.
func Error(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	f := Fault(r.Context(), log, err)
	maps.Copy(w.Header(), Headers(f))
	JSON(w, f.Kind.Status(), BodyOf(f))
}

// Headers returns the headers of a fault's answer.
func Headers(f *fault.Fault) http.Header {
	switch {
	case f.Kind == fault.Unauthenticated:
		return http.Header{"Www-Authenticate": {"Bearer"}}
	case f.Wait > 0:
		return http.Header{"Retry-After": {Seconds(f.Wait)}}
	case f.Kind == fault.Busy || f.Kind == fault.Unavailable:
		return http.Header{"Retry-After": {"1"}}
	}
	return http.Header{}
}

// Seconds formats a duration for Retry-After. It rounds up, so that a caller who waits that long is
// not too early.
func Seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// BodyOf returns the body of a fault. A 5xx has no details.
func BodyOf(f *fault.Fault) Body {
	if f.Kind.Status() >= http.StatusInternalServerError {
		return Body{f.Code, f.Message, map[string]any{}}
	}
	return Body{f.Code, f.Message, f.Details}
}

// Fault returns the fault to answer err with, and logs what the caller is not told.
func Fault(ctx context.Context, log *slog.Logger, err error) *fault.Fault {
	f := fault.As(err)
	switch {
	case f == nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
		log.InfoContext(ctx, "caller went away", "err", err)
		return fault.ErrBusy
	case f == nil:
		log.ErrorContext(ctx, "request failed", "err", err)
		if fault.IsUnavailable(err) {
			return fault.ErrUnavailable
		}
		return fault.ErrInternal
	case f.Kind.Status() >= http.StatusInternalServerError:
		log.Log(ctx, f.Kind.Level(), "request failed", "code", f.Code, "err", err)
	}
	return f
}
