// Package rest serves the REST API under /api/v1, its description beside it,
// and the health endpoints. A noun has a file: its routes with guards, descriptions and
// examples, the forms of its answers, its handlers. sections, in routes.go, lists them.
package rest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/http/limit"
	"svc/http/openapi"
	"svc/http/quota"
	"svc/http/router"
	"svc/lookup"
	"svc/projections"
	"svc/proof"
	"svc/sessions"
)

const (
	// Version is that of the REST service, and info.version of its description.
	Version = "0.39.0"

	prefix   = "/api/v1"
	docsPath = "/api/docs"
)

// beginLimit is how long it may take until an answer that takes long begins.
const beginLimit = 30 * time.Second

// Config is what a server works with. All fields are needed but Limit, Warnings, Machines, CodeHost and Farm.
type Config struct {
	Commands     *commands.Handler
	Views        Views
	Lists        Lists
	Prover       *proof.Prover
	Live         *feed.Feed
	Keys         Keys
	Sessions     *sessions.Store
	LastSeen     *sessions.LastSeen
	Limit        *limit.Limit // of requests by each caller; nil is none
	Dependencies map[string]Check
	Warnings     func() map[string]string // what operators should look at, by name; nil is nothing
	Load         func() float64           // how busy the service is: 0 idle, 1 that requests wait
	CodeHost     *CodeHost                // of all repositories; nil if there is none
	Origin       string                   // where browsers reach the service, such as https://svc.example.com
	Ending       <-chan struct{}          // closed when the service is to stop: streams end then
	Machines     []openapi.Mounted        // the routes of build machines, which share router and description
	Farm         Farm
	Now          func() time.Time
	Log          *slog.Logger
}

// Views are what commands, guards and answers to writes read: always of the database
// itself.
type Views struct {
	Runs            projections.Runs
	Decisions       projections.Decisions
	Workspaces      projections.Workspaces
	Users           projections.Users
	Members         projections.Members
	Invitations     projections.Invitations
	ServiceAccounts projections.ServiceAccounts
	Runners         projections.Runners
	Jobs            projections.Jobs
	Farm            projections.BuildFarm
	Enrollments     projections.Enrollments
	Artifacts       projections.Artifacts
	FarmSecrets     projections.FarmSecrets
	History         projections.History
	Follower        Awaiter // of those that are followed
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

// A Server answers API requests.
type Server struct {
	commands *commands.Handler
	views    Views
	lists    Lists
	prover   *proof.Prover
	live     *feed.Feed
	keys     Keys
	sessions *sessions.Store
	lastSeen *sessions.LastSeen
	limit    *limit.Limit
	load     func() float64
	codeHost *CodeHost
	origin   string
	ending   <-chan struct{}
	machines []openapi.Mounted
	farm     Farm
	now      func() time.Time
	log      *slog.Logger

	sameSite *http.CrossOriginProtection
	stale    *staleUses
	bounds   bounds
	issuers  issuers
	health   *health

	// What many requests of a moment ask for.
	tokens      lookup.Group[events.Fingerprint, projections.ServiceToken]
	memberships lookup.Group[projections.Ref, projections.Membership]
	members     lookup.Group[projections.Ref, projections.Member]
	positions   lookup.Group[events.ID, int64]
}

// New returns a server that is ready to answer.
func New(c Config) *Server {
	return &Server{
		commands: c.Commands, views: c.Views, lists: c.Lists, prover: c.Prover, live: c.Live, keys: c.Keys,
		sessions: c.Sessions, lastSeen: c.LastSeen, limit: c.Limit, load: c.Load, codeHost: c.CodeHost, origin: c.Origin, ending: c.Ending,
		machines: c.Machines, farm: c.Farm, now: c.Now, log: c.Log,
		sameSite: http.NewCrossOriginProtection(), stale: newStaleUses(c.Commands, c.Log), bounds: newBounds(), issuers: newIssuers(),
		health: newHealth(c.Dependencies, c.Warnings, c.Log),
	}
}

// Run does what is left to do behind answers, until ctx ends. Call it once.
func (s *Server) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.stale.run(ctx) })
	group.Go(func() { s.health.run(ctx) })
	group.Wait()
}

// Bounds returns every bound, for metrics.
func (s *Server) Bounds() []*quota.Semaphore { return s.bounds.all() }

// Handler returns the API and its description: what is under /api.
func (s *Server) Handler() http.Handler {
	api := s.api()
	api.ServeDocument("/api/openapi", docsPath)
	return api
}

func (s *Server) api() *openapi.API {
	api := openapi.New(openapi.Config{
		Title: "Workspace Service", Version: Version, Describe: s.describe, ExampleID: exampleID, Log: s.log,
	})
	s.mount(api)
	return api
}

// Health returns what says how the service is: what is under /health.
func (s *Server) Health() http.Handler {
	routes := router.New(router.Refuse(s.log, router.ErrNotFound), router.Refuse(s.log, router.ErrMethod))
	routes.Handle(router.Route{Method: http.MethodGet, Path: "/health/live", Handler: http.HandlerFunc(live)})
	routes.Handle(router.Route{Method: http.MethodGet, Path: "/health/ready", Handler: http.HandlerFunc(s.health.ready)})
	return routes
}
