// Package engine is the service that the REST service hands its work to, and
// the client by which it does.
//
// The engine is internal. It says that it runs at /healthz; everything else
// is below /internal/ and needs the secret that both services share:
//
//	GET /healthz          200 {"status":"ok"}
//	GET /internal/status  200 {"status":"ok","version":…,"startedAt":…}
//
// An error has the body {"code":…,"message":…,"details":{}}.
package engine

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/julienschmidt/httprouter"

	"svc/config"
	"svc/fault"
)

// Errors that the engine answers with.
var (
	errKey      = fault.New(fault.Unauthenticated, "engine_key_invalid", "The engine's key is missing or wrong.")
	errNotFound = fault.New(fault.NotFound, "not_found", "The engine has nothing here.")
	errMethod   = fault.New(fault.MethodNotAllowed, "method_not_allowed", "Use another method.")
	errInternal = fault.New(fault.Internal, "internal_error", "Something went wrong in the engine. Its log says what.")
)

// A Status is what GET /internal/status answers.
type Status struct {
	Status    string    `json:"status"` // ok
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"` // UTC, to the millisecond
}

// MarshalJSON writes StartedAt with exactly three fractional digits.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		plain
		StartedAt string `json:"startedAt"`
	}{plain(s), s.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")})
}

const (
	maxBody     = 1 << 20          // bytes of a request
	maxDuration = 30 * time.Second // of a request, from its header to its last byte
)

// NewHandler returns the engine's HTTP interface. Its clock starts now.
func NewHandler(secret config.Secret, version string, log *slog.Logger) http.Handler {
	status := Status{Status: "ok", Version: version, StartedAt: time.Now()}

	r := httprouter.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	r.NotFound = refuse(errNotFound)
	r.MethodNotAllowed = refuse(errMethod)
	r.Handler(http.MethodGet, "/healthz", show(map[string]string{"status": "ok"}))
	r.Handler(http.MethodGet, "/internal/status", show(status))
	return recovered(log, limited(guarded(secret, r)))
}

func show(body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, body) }
}

func refuse(f *fault.Fault) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, f.Kind.Status(), map[string]any{"code": f.Code, "message": f.Message, "details": f.Details})
	}
}

// answer writes body as JSON. A body that cannot be encoded is a bug.
func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller has gone if it fails
}
