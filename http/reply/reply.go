// Package reply writes answers, every error with the same body, and judges what has
// to be true of any request.
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

// A Body is what every error is answered with. Details is never null.
type Body struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// JSON writes v with a status.
func JSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type that cannot be encoded is a bug
	}
	w.Header().Set("Content-Type", "application/json")
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // if it fails the caller has gone
}

// Error writes what err means to the caller. What is no fault is logged and
// answered with a 500 that says nothing.
func Error(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	f := Fault(r.Context(), log, err)
	maps.Copy(w.Header(), Headers(f))
	JSON(w, f.Kind.Status(), BodyOf(f))
}

// Headers returns what else the answer to a fault says.
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

// Seconds writes a duration as Retry-After has it, rounded up, so that whoever
// waits that long is let in.
func Seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// BodyOf returns the body of a fault. A 5xx has no details.
func BodyOf(f *fault.Fault) Body {
	if f.Kind.Status() >= http.StatusInternalServerError {
		return Body{f.Code, f.Message, map[string]any{}}
	}
	return Body{f.Code, f.Message, f.Details}
}

// Fault returns what err means to the caller, and logs what they are not told.
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
