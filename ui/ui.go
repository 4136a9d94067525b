// Package ui is the web app. It renders pages from the REST service's responses to the person
// who asks. It has no state and no database.
package ui

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"svc/config"
	"svc/http/forward"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/ui/account"
	"svc/ui/asset"
	"svc/ui/audit"
	"svc/ui/backlog"
	"svc/ui/client"
	"svc/ui/dashboard"
	"svc/ui/farm"
	"svc/ui/insights"
	"svc/ui/jobs"
	"svc/ui/live"
	"svc/ui/members"
	"svc/ui/needs"
	"svc/ui/page"
	"svc/ui/repos"
	"svc/ui/runs"
	"svc/ui/search"
	"svc/ui/serviceaccounts"
	"svc/ui/settings"
	"svc/ui/signin"
	"svc/ui/styleguide"
	"svc/ui/workspaces"
)

//go:generate go run -modfile=../tools/go.mod github.com/a-h/templ/cmd/templ generate

// Config is the environment of svc-ui.
type Config struct {
	Addr config.Addr `env:"SVC_UI_ADDR" envDefault:":3000" doc:"Address to listen on."`

	RestURL config.URL `env:"SVC_REST_URL,required,notEmpty" schemes:"http,https" doc:"Where the REST service is reached."`

	// The REST service has the same variable, because sign-in returns to this address.
	AppURL config.URL `env:"AUTH_URL,required,notEmpty" schemes:"http,https" doc:"Public address of the web app. Must be the same in the REST service."`

	APIURL config.URL `env:"SVC_API_URL" schemes:"http,https" doc:"Public address of the REST service. Sign-in and error pages link to its documentation there, and the page of a new token has a command that uses it; unset, there are none of these."`

	TrustedProxies config.CIDRs `env:"SVC_TRUSTED_PROXIES" doc:"Proxies, as addresses and networks with commas between, whose X-Forwarded-For is believed."`

	// Metrics tell how busy the app is: keep the address internal.
	MetricsAddr config.Addr `env:"SVC_METRICS_ADDR" doc:"Address to serve Prometheus metrics on, at /metrics. Unset, there are none. Internal only."`

	Kit bool `env:"SVC_DEV_KIT" envDefault:"false" doc:"Serve /kit, a page of all colours and components. For development alone."`

	LogLevel slog.Level `env:"SVC_LOG_LEVEL" envDefault:"info" doc:"Least level that is logged: debug, info, warn or error."`
}

// Check refuses addresses with more than a scheme and a host.
func (c Config) Check() error {
	for name, u := range map[string]config.URL{"SVC_REST_URL": c.RestURL, "AUTH_URL": c.AppURL, "SVC_API_URL": c.APIURL} {
		if !u.IsZero() && !u.IsOrigin() {
			return errors.New(name + " is malformed: want a scheme and a host alone")
		}
	}
	return nil
}

// maxHook bounds what a code host tells of a change.
const maxHook = 1 << 20

// A Server serves the app.
type Server struct {
	service *client.Service
	handler http.Handler
}

// New returns the app. Live updates end when ending is closed.
func New(c Config, now func() time.Time, ending <-chan struct{}, log *slog.Logger) *Server {
	rest, app := c.RestURL.URL(), c.AppURL.URL()
	service := client.NewService(rest.Scheme + "://" + rest.Host)
	assets := asset.New()
	a := &page.App{Service: service, Now: now, Log: log, Secure: app.Scheme == "https", Assets: assets}
	if api := c.APIURL.URL(); api != nil {
		a.API = api.Scheme + "://" + api.Host
	}
	mux := http.NewServeMux()
	handle := func(method, path string, limits middleware.Limits, handler http.Handler) {
		mux.Handle(method+" "+path, middleware.Routed(method, path, middleware.Limited(limits, handler)))
	}
	handle(http.MethodGet, "/health/live", middleware.Limits{}, http.HandlerFunc(alive))
	if c.Kit {
		assets.AddStates()
		colours, types := asset.Tokens()
		a.Mount(handle, styleguide.Routes(assets.URL(asset.States), colours, types))
	}
	assets.Mount(handle)
	live.Mount(handle, service, ending, log)
	for _, routes := range [][]page.Route{
		signin.Routes(),
		workspaces.Routes(),
		account.Routes(),
		dashboard.Routes(),
		needs.Routes(),
		runs.Routes(),
		backlog.Routes(),
		members.Routes(),
		serviceaccounts.Routes(),
		audit.Routes(),
		insights.Routes(),
		farm.Routes(),
		jobs.Routes(),
		search.Routes(),
		settings.Routes(),
		repos.Routes(),
	} {
		a.Mount(handle, routes)
	}
	missing := middleware.Limited(middleware.Limits{Policy: page.Policy}, a.NotFound())
	mux.Handle("/", missing)
	mux.Handle("/w/{workspace}/{rest...}", missing)
	mux.Handle("/api/auth/", forward.To(rest, middleware.Limits{}, log))
	mux.Handle("POST /hooks/{id}", middleware.Routed(http.MethodPost, "/hooks/{id}", forward.To(rest, middleware.Limits{Body: maxHook}, log)))
	return &Server{service, sameSite(app.Scheme+"://"+app.Host, log, mux)}
}

// Handler answers every request.
func (s *Server) Handler() http.Handler { return s.handler }

// Close closes idle connections to the REST service.
func (s *Server) Close() { s.service.Close() }

func alive(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// sameSite refuses requests that another site made a browser send, except those under /api/auth,
// which the REST service checks: sign-in providers post there.
func sameSite(origin string, log *slog.Logger, next http.Handler) http.Handler {
	same := middleware.NewSameSite(origin, "/api/auth/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := same.Check(r); err != nil {
			reply.Error(w, r, log, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
