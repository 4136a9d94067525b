// Package farm serves the routes of build machines: registration, the runner's connection, and
// uploads. The routes of people and tokens are in package rest, whose router, error bodies and
// description these share.
//
// A machine authenticates by a client certificate. The gateway terminates TLS and forwards the
// certificate in a header, which is only accepted if the peer of the connection is a trusted proxy.
// guard.go checks it on every request. A certificate gives access to the workspace whose authority
// signed it, until the runner is revoked.
package farm

import (
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"svc/commands"
	"svc/farm/artifacts"
	"svc/farm/dispatch"
	"svc/http/fair"
	"svc/http/limit"
	"svc/http/openapi"
	"svc/lru"
	"svc/projections/farmviews"
	"svc/vault"
)

// prefix is the path below which the routes are.
const prefix = "/api/v1/farm"

// A Config configures a server. If Enabled is false every route answers that the farm is off, and
// only Log is needed.
type Config struct {
	Enabled  bool
	Commands *commands.Handler
	Runners  farmviews.Runners
	Secrets  vault.Secrets // has the keys of the authorities

	PublicURL    *url.URL              // of the gateway; nil if unknown
	Header       string                // in which the gateway forwards certificates; "" accepts none
	TrustedProxy func(netip.Addr) bool // peers from which Header is accepted; nil is all

	Limit                *limit.Limit // requests per runner or address; nil is no limit
	EnrollmentLimit      *limit.Limit // registrations per address, and renewals per runner
	TokenEnrollmentLimit *limit.Limit // registrations with the same token that somebody minted

	Artifacts  artifacts.Store      // nil accepts no uploads
	Dispatcher *dispatch.Dispatcher // serves connections of runners

	ArtifactMaxJobBytes int64
	ArtifactLimit       *limit.Limit    // bytes that the runners of a workspace declare in a day; nil is no limit
	ReleaseKeys         func() []string // keys that sign releases of the agent, such as ed25519:gOXG…

	Now func() time.Time
	Log *slog.Logger
}

// A Server serves the routes.
type Server struct {
	Config
	uploads     *fair.Semaphore
	takeover    takeover
	authorities authorityCache
	counted     *lru.Cache[artifacts.Job, int64] // bytes of a job's files that ArtifactLimit has counted
	buffers     sync.Pool                        // pool of write buffers for connections
}

const maxCounted = 10_000

// New returns a server.
func New(c Config) *Server {
	return &Server{Config: c, uploads: newUploads(), authorities: newAuthorityCache(), counted: lru.New[artifacts.Job, int64](maxCounted)}
}

// Bounds returns the semaphores, for metrics.
func (s *Server) Bounds() []*fair.Semaphore { return []*fair.Semaphore{s.uploads} }

// Operations returns the routes, to be added to the API.
func (s *Server) Operations() []openapi.Mounted {
	return slices.Concat(s.registrationRoutes(), s.artifactRoutes(), []openapi.Mounted{s.agentRoute()})
}
