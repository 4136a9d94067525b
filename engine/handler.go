// Package engine is the service to which the REST service delegates work, through engine/client.
//
// The engine is internal. /healthz reports that it runs. Everything else is below /internal/ and
// needs the secret that both services share:
//
//	GET /healthz                 200 {"status":"ok"}
//	GET /internal/status         200 {"status":"ok","version":…,"startedAt":…}
//	POST /internal/steps/{kind}  200 lines of [client.Line]; see [client.Step]
//
// A step works on a repository at a code host with a credential that the request has. The engine keeps nothing of
// it but copies of repositories, which may be deleted at any time. What a step changes at the host it
// changes once, however often it is asked for.
//
// An error has the body {"code":…,"message":…,"details":{}}.
package engine

import (
	"log/slog"
	"net/http"
	"time"

	"svc/config"
	"svc/engine/client"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/router"
)

// Errors that the engine returns.
var (
	errKey      = fault.New(fault.Unauthenticated, "engine_key_invalid", "The engine's key is missing or wrong.")
	errNotFound = fault.New(fault.NotFound, "not_found", "The engine has nothing here.")
	errMethod   = fault.New(fault.MethodNotAllowed, "method_not_allowed", "Use another method.")
)

// NewHandler returns the engine's HTTP interface. The reported start time is now. Without steps, nil, the
// engine has none.
func NewHandler(secret config.Secret, version string, steps *Steps, log *slog.Logger) http.Handler {
	status := client.Status{Status: "ok", Version: version, StartedAt: time.Now()}

	r := router.New(router.Refuse(log, errNotFound), router.Refuse(log, errMethod))
	for path, body := range map[string]any{"/healthz": map[string]string{"status": "ok"}, "/internal/status": status} {
		r.Handle(router.Route{Method: http.MethodGet, Path: path, Handler: show(body)})
	}
	if steps != nil {
		r.Handle(steps.route())
	}
	refuse := middleware.Limited(middleware.Limits{}, router.Refuse(log, errKey))
	return middleware.Traced(log, guarded(secret, refuse, r))
}

func show(body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply.JSON(w, http.StatusOK, body) }
}
