// Package rest serves the REST API under /api/v1, its description beside it,
// and the health endpoints. routes.go is the whole API at a glance.
package rest

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humahttprouter"
	"github.com/julienschmidt/httprouter"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/lookup"
	"svc/projections"
	"svc/proof"
	"svc/sessions"
)

const (
	// Version is that of the REST service, and info.version of its description.
	Version = "0.39.0"

	prefix  = "/api/v1"
	maxBody = reply.MaxBody + 1 // huma refuses a body of as many bytes
)

// A Server answers API requests. All fields are needed but Limit and Warnings.
type Server struct {
	Commands        *commands.Handler
	Lists           Lists
	Runs            projections.Runs
	Decisions       projections.Decisions
	Workspaces      projections.Workspaces
	Members         projections.Members
	Invitations     projections.Invitations
	ServiceAccounts projections.ServiceAccounts
	History         projections.History
	Proof           *proof.Prover
	Live            *feed.Feed
	Follower        Awaiter
	Keys            Keys
	Sessions        *sessions.Store
	LastSeen        *sessions.LastSeen
	Limit           *limit.Limit // of requests by each caller; nil is none
	Dependencies    map[string]Check
	Warnings        func() map[string]string // what operators should look at, by name; nil is nothing
	Load            func() float64           // how busy the service is: 0 idle, 1 that requests wait
	Origin          string                   // where browsers reach the service, such as https://svc.example.com
	Auth            http.Handler             // serves /api/auth
	Home            http.Handler             // serves the page at the root
	Ending          <-chan struct{}          // closed when the service is to stop: streams end then
	Now             func() time.Time
	Log             *slog.Logger

	sameSite *http.CrossOriginProtection
	once     sync.Once // makes what follows
	stale    *staleUses
	bounds   bounds
	issuers  issuers
	health   *health

	// What many requests of a moment ask for.
	tokens      lookup.Group[events.Fingerprint, projections.ServiceToken]
	memberships lookup.Group[projections.Place, projections.Membership]
	members     lookup.Group[projections.Place, projections.Member]
	positions   lookup.Group[events.ID, int64]
}

// Lists are what GETs read of followed views. They may be those of a replica of
// the database: commands, and all that lets a caller in, read the database itself.
type Lists struct {
	Runs      projections.Runs
	Decisions projections.Decisions
	Audit     projections.Audit
	Insights  projections.Insights
	Dashboard projections.Dashboard
	Views     Awaiter // where they are read
}

// An Awaiter knows whether a view has reached a position, and waits until it has.
type Awaiter interface {
	Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error)
	Await(ctx context.Context, view string, workspace events.ID, seq int64) error
}

// Keys says who holds a global key.
type Keys interface {
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

var errNotFound = fault.New(fault.NotFound, "not_found", "There is nothing here.")

// Run does what is left to do behind answers, until ctx ends. Call it once.
func (s *Server) Run(ctx context.Context) {
	s.once.Do(s.prepare)
	var group sync.WaitGroup
	group.Go(func() { s.stale.run(ctx) })
	group.Go(func() { s.health.run(ctx) })
	group.Wait()
}

// prepare makes what Handler and Run work with.
func (s *Server) prepare() {
	s.sameSite = http.NewCrossOriginProtection()
	s.stale = newStaleUses(s.Commands, s.Log)
	s.bounds, s.issuers = newBounds(), newIssuers()
	s.health = &health{checks: s.Dependencies, warnings: s.Warnings, log: s.Log}
	if s.Warnings == nil {
		s.health.warnings = func() map[string]string { return nil }
	}
}

// Handler returns everything that the REST service serves.
func (s *Server) Handler() http.Handler {
	s.once.Do(s.prepare)
	mux := httprouter.New()
	mux.RedirectTrailingSlash, mux.RedirectFixedPath, mux.HandleOPTIONS = false, false, false
	mux.NotFound = s.refuse(errNotFound)
	mux.MethodNotAllowed = http.HandlerFunc(s.refuseMethod)
	for _, path := range []string{"/", "/home.js", "/home.css"} {
		get(mux, path, s.Home.ServeHTTP)
	}
	get(mux, "/health/live", live)
	get(mux, "/health/ready", s.health.ready)

	api := huma.NewAPI(s.apiConfig(), s.adapters(mux))
	s.mount(api)
	illustrate(api.OpenAPI(), s.routes())
	serveDescription(mux, api)
	return middleware.Traced(s.Log, middleware.Bounded(headAsGet(s.withAuth(mux))))
}

// get serves a path that is no operation of the API.
func get(mux *httprouter.Router, path string, serve http.HandlerFunc) {
	mux.Handler(http.MethodGet, path, middleware.Routed(http.MethodGet, path, serve))
}

// adapters lets a path that is all names, such as /audit/export, stand beside one
// with a place in it, such as /audit/{id}. A router of this kind has no room for
// both, so the first kind has one of its own, which is mux, and comes first.
func (s *Server) adapters(mux *httprouter.Router) huma.Adapter {
	places := httprouter.New()
	places.RedirectTrailingSlash, places.RedirectFixedPath, places.HandleOPTIONS = false, false, false
	places.NotFound, places.MethodNotAllowed = mux.NotFound, mux.MethodNotAllowed
	mux.NotFound = places
	return routers{humahttprouter.New(mux, s.apiConfig()).Adapter(), humahttprouter.New(places, s.apiConfig()).Adapter()}
}

type routers struct{ names, places huma.Adapter }

// Handle adds an operation to the router for its kind of path.
func (r routers) Handle(o *huma.Operation, handler func(huma.Context)) {
	if strings.Contains(o.Path, "{") {
		r.places.Handle(o, handler)
		return
	}
	r.names.Handle(o, handler)
}

// ServeHTTP asks the names, which ask the places.
func (r routers) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.names.ServeHTTP(w, req) }

// withAuth leads /api/auth to its own handler.
func (s *Server) withAuth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/auth/") {
			s.Auth.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) refuse(f *fault.Fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reply.Error(w, r, s.Log, f) })
}

func (s *Server) apiConfig() huma.Config {
	c := huma.DefaultConfig("Workspace Service", Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	form := huma.Format{Marshal: writeEncoded, Unmarshal: unmarshal}
	c.Formats = map[string]huma.Format{"application/json": form, "json": form}
	c.Transformers = []huma.Transformer{encode}
	describe(c.OpenAPI, s.Origin)
	return c
}
