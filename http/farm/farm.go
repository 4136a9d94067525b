// Package farm serves the routes of build machines: how a machine becomes a runner, its
// connection, and what it uploads. People and tokens have theirs in package rest, whose
// router, error bodies and description these share.
//
// A machine proves who it is by a client certificate. The gateway that terminates its TLS
// forwards that in a header, which is believed from trusted proxies alone, whoever they
// say they forward for: the peer of the connection counts. guard.go reads it on every
// request; what it opens ends at the workspace whose authority signed it, and at the
// moment at which the runner is revoked.
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
	"svc/http/limit"
	"svc/http/openapi"
	"svc/http/quota"
	"svc/projections"
	"svc/vault"
)

// prefix is where the routes of machines are.
const prefix = "/api/v1/farm"

// Config is what a server works with. Where On is false every route answers that the farm
// is off, and Log is all that is needed beside it.
type Config struct {
	On       bool
	Commands *commands.Handler
	Runners  projections.Runners
	Secrets  vault.Secrets // where the keys of authorities are

	PublicURL *url.URL              // of the gateway; nil if it is not known
	Header    string                // in which the gateway forwards certificates, or ""
	Trusted   func(netip.Addr) bool // whom it is believed from; nil is anybody

	Limit         *limit.Limit // of requests by each runner, or address; nil is none
	Enrolments    *limit.Limit // of enrolments and renewals by each address or runner
	AllEnrolments *limit.Limit // by all together

	Artifacts  artifacts.Store      // nil: none are taken
	Dispatcher *dispatch.Dispatcher // of connections

	ArtifactMaxJobBytes int64
	ReleaseKeys         func() []string // that releases of the agent are signed with, such as ed25519:gOXG…

	Now func() time.Time
	Log *slog.Logger
}

// A Server answers machines.
type Server struct {
	Config
	uploads     *quota.Semaphore
	takeover    takeover
	authorities authorities
	buffers     sync.Pool // of connections that are written to
}

// New returns a server that is ready to answer.
func New(c Config) *Server {
	return &Server{Config: c, uploads: newUploads(), authorities: newAuthorities()}
}

// Bounds returns every bound, for metrics.
func (s *Server) Bounds() []*quota.Semaphore { return []*quota.Semaphore{s.uploads} }

// Operations returns the routes of machines, to be added to the API.
func (s *Server) Operations() []openapi.Mounted {
	return slices.Concat(s.registrationRoutes(), s.artifactRoutes(), []openapi.Mounted{s.agentRoute()})
}
