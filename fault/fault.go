// Package fault sorts errors into the few kinds a caller can act upon, and
// gives each kind its HTTP status.
package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"time"
)

// A Kind says what the caller may do about an error.
type Kind int

// The kinds. An error that is no fault is a bug or an outage: [Internal].
const (
	Internal         Kind = iota // nothing; the log says why
	Malformed                    // send a request that can be read
	Unauthenticated              // say who you are
	Denied                       // ask someone who may
	NotFound                     // look elsewhere
	Gone                         // nothing: it was here, and will not be again
	MethodNotAllowed             // use another method
	Conflict                     // read again, then retry
	TooLarge                     // send less
	UnsupportedMedia             // send another content type
	Invalid                      // correct the fields named in the details
	RateLimited                  // wait
	Busy                         // try again in a moment: others were first
	Unavailable                  // try again later: something is amiss
)

// kinds is the one place where a kind becomes an HTTP status, and says how
// loudly it is logged. What is only the caller's concern is logged at
// [slog.LevelDebug].
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
	TooLarge:         {http.StatusRequestEntityTooLarge, slog.LevelDebug},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, slog.LevelDebug},
	Invalid:          {http.StatusUnprocessableEntity, slog.LevelDebug},
	RateLimited:      {http.StatusTooManyRequests, slog.LevelDebug},
	Busy:             {http.StatusServiceUnavailable, slog.LevelInfo},
	Unavailable:      {http.StatusServiceUnavailable, slog.LevelError},
}

// Status returns the HTTP status of k.
func (k Kind) Status() int { return kinds[k].status }

// Level returns the level at which an error of the kind is logged.
func (k Kind) Level() slog.Level { return kinds[k].level }

// A Fault is an error that is shown to whoever caused it.
//
// Code is stable and what clients branch on; Message is for people; Details
// is JSON-encoded as an object, never null.
type Fault struct {
	Kind    Kind
	Code    string
	Message string
	Details map[string]any
	Wait    time.Duration // how long to wait before another try; 0 if that is not known
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

// With returns a copy of f that has one more detail.
func (f *Fault) With(name string, value any) *Fault {
	c := *f
	c.Details = maps.Clone(f.Details)
	c.Details[name] = value
	return &c
}

// After returns a copy of f that says how long to wait before another try.
func (f *Fault) After(wait time.Duration) *Fault {
	c := *f
	c.Wait = wait
	return &c
}

// As returns the fault in err's chain, or nil if err is none.
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

// Faults that every route can answer with.
var (
	ErrInternal = New(Internal, "internal_error",
		"Something went wrong on our side. The request id leads to the reason in the service's log.")
	ErrValidation      = New(Invalid, "validation_failed", "The request is not valid. See `details` for each field.")
	ErrUnauthenticated = New(Unauthenticated, "unauthenticated", "Sign in, or send a service token as a Bearer token.")
	ErrTenantNotFound  = New(NotFound, "tenant_not_found", "There is no such workspace.")
	ErrUnavailable     = New(Unavailable, "unavailable", "Something that the service needs does not answer. Try again in a moment.")
	ErrBusy            = New(Busy, "busy", "The service is busy. Try again in a moment.")
)
