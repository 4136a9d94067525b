// Package fault classifies errors into the few kinds that a caller can act upon, and gives
// each kind its HTTP status.
package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Kind says what the caller can do about an error.
type Kind int

// The kinds, with what the caller can do. An error that is not a Fault is a bug or an
// outage: [Internal].
const (
	Internal         Kind = iota // nothing; the service's log has the reason
	Malformed                    // send a well-formed request
	Unauthenticated              // sign in
	Denied                       // ask somebody who has the right
	NotFound                     // nothing: it is not there
	Gone                         // nothing: it existed, and will not exist again
	MethodNotAllowed             // use another method
	Conflict                     // read the current state, then retry
	Precondition                 // read the current state, then retry without the condition
	TooLarge                     // send less
	UnsupportedMedia             // send another content type
	OutOfRange                   // ask for a range that exists
	Invalid                      // correct the fields named in the details
	RateLimited                  // wait, then retry
	Busy                         // retry in a moment: others came first
	Unavailable                  // retry later: something is not working
)

// kinds gives each kind its HTTP status and its log level. Errors that concern only the
// caller are logged at [slog.LevelDebug].
var kinds = map[Kind]struct {
	status int
	level  slog.Level
}{
	Internal:         {http.StatusInternalServerError, slog.LevelError},
	Malformed:        {http.StatusBadRequest, slog.LevelDebug},
	Unauthenticated:  {http.StatusUnauthorized, slog.LevelDebug},
	Denied:           {http.StatusForbidden, slog.LevelDebug},
	NotFound:         {http.StatusNotFound, slog.LevelDebug},
	Gone:             {http.StatusGone, slog.LevelDebug},
	MethodNotAllowed: {http.StatusMethodNotAllowed, slog.LevelDebug},
	Conflict:         {http.StatusConflict, slog.LevelDebug},
	Precondition:     {http.StatusPreconditionFailed, slog.LevelDebug},
	TooLarge:         {http.StatusRequestEntityTooLarge, slog.LevelDebug},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, slog.LevelDebug},
	OutOfRange:       {http.StatusRequestedRangeNotSatisfiable, slog.LevelDebug},
	Invalid:          {http.StatusUnprocessableEntity, slog.LevelDebug},
	RateLimited:      {http.StatusTooManyRequests, slog.LevelDebug},
	Busy:             {http.StatusServiceUnavailable, slog.LevelInfo},
	Unavailable:      {http.StatusServiceUnavailable, slog.LevelError},
}

// Status returns the HTTP status of k.
func (k Kind) Status() int { return kinds[k].status }

// Level returns the level at which errors of the kind are logged.
func (k Kind) Level() slog.Level { return kinds[k].level }

// A Fault is an error that is shown to the caller.
//
// Code is stable, and clients branch on it. Message is for people. Details is encoded as a
// JSON object, never as null.
type Fault struct {
	Kind    Kind
	Code    string
	Message string
	Details map[string]any
	Wait    time.Duration // before a retry; 0 if unknown
}

// New returns a fault without details.
func New(k Kind, code, format string, args ...any) *Fault {
	return &Fault{Kind: k, Code: code, Message: fmt.Sprintf(format, args...), Details: map[string]any{}}
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

// Is makes faults comparable by code, whatever their details.
func (f *Fault) Is(target error) bool {
	t, ok := target.(*Fault)
	return ok && t.Code == f.Code
}

// With returns a copy of f with one more detail.
func (f *Fault) With(name string, value any) *Fault {
	c := *f
	c.Details = maps.Clone(f.Details)
	c.Details[name] = value
	return &c
}

// DetailText returns the details as text, such as "step: must be the step that goes on".
func (f *Fault) DetailText() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Details)) {
		value := f.Details[name]
		if messages, ok := value.([]string); ok {
			value = strings.Join(messages, ", ")
		}
		list = append(list, fmt.Sprintf("%s: %v", name, value))
	}
	return strings.Join(list, "; ")
}

// After returns a copy of f that says how long to wait before a retry.
func (f *Fault) After(wait time.Duration) *Fault {
	c := *f
	c.Wait = wait
	return &c
}

// As returns the fault in err's chain, or nil if there is none.
func As(err error) *Fault {
	f, _ := errors.AsType[*Fault](err)
	return f
}

// Field returns a validation fault about one field of the request.
func Field(name, format string, args ...any) *Fault {
	return ErrValidation.With(name, []string{fmt.Sprintf(format, args...)})
}

// Fields returns a validation fault about several fields of the request.
func Fields(wrong map[string][]string) *Fault {
	f := *ErrValidation
	f.Details = make(map[string]any, len(wrong))
	for name, messages := range wrong {
		f.Details[name] = messages
	}
	return &f
}

// Faults that every route can return.
var (
	ErrInternal = New(Internal, "internal_error",
		"Something went wrong on our side. The request id leads to the reason in the service's log.")
	ErrValidation      = New(Invalid, "validation_failed", "The request is not valid. See `details` for each field.")
	ErrUnauthenticated = New(Unauthenticated, "unauthenticated", "Sign in, or send a service token as a Bearer token.")
	ErrTenantNotFound  = New(NotFound, "tenant_not_found", "There is no such workspace.")
	ErrUnavailable     = New(Unavailable, "unavailable", "Something that the service needs does not answer. Try again in a moment.")
	ErrBusy            = New(Busy, "busy", "The service is busy. Try again in a moment.")
)

// ErrCrossOrigin refuses a request that another site made a browser send.
var ErrCrossOrigin = New(Denied, "cross_origin_refused", "This request came from another site.")

// Wrap says what failed, and on what: it returns "format: err", which wraps err, and nil if err is nil.
func Wrap(err error, format string, operands ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(operands, err)...)
}
