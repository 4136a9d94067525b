// Package door admits callers to the routes of the API: who they are, what they may do, how much at once, and in
// which order that is checked. It knows no noun. Package rest and its wings describe their routes by it.
package door

import (
	"context"
	"log/slog"
	"time"

	"svc/commands"
	"svc/events"
	"svc/events/feed"
	"svc/http/fair"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/lookup"
	"svc/lru"
	"svc/projections"
	"svc/sessions"
)

// Config has what a Door knows callers by, and what all routes share. Limit is optional.
type Config struct {
	Commands *commands.Handler
	Sessions *sessions.Store
	LastSeen *sessions.LastSeen
	Limit    *limit.Limit // request rate of each caller; nil means unlimited
	Keys     Keys

	// Views on the primary database.
	Members         projections.Members
	ServiceAccounts projections.ServiceAccounts
	Users           projections.Users
	Workspaces      projections.Workspaces

	Primary Awaiter // of the followed views on the primary database
	Replica Awaiter // of those that GETs read, perhaps from a replica of the database

	FarmOn bool // whether there is a build farm
	Live   *feed.Feed
	Origin string          // address of the service for browsers, such as https://svc.example.com
	Ending <-chan struct{} // closed when the service stops, which ends streams
	Now    func() time.Time
	Log    *slog.Logger
}

// An Awaiter knows whether a view has reached a position, and waits until it has.
type Awaiter interface {
	Reached(ctx context.Context, view string, workspace events.ID, seq int64) (bool, error)
	Await(ctx context.Context, view string, workspace events.ID, seq int64) error
}

// Keys looks up the holder of a global key.
type Keys interface {
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

// A Door admits callers to routes.
type Door struct {
	Config
	Bounds *Bounds

	sameSite *middleware.SameSite
	stale    *staleUses
	issuers  *lru.Cache[events.Fingerprint, events.ID] // who issued each token, which never changes

	// Look-ups that concurrent requests share.
	tokens      lookup.Group[events.Fingerprint, projections.ServiceToken]
	memberships lookup.Group[projections.Ref, projections.Membership]
}

// maxIssuers bounds the tokens whose issuers are remembered.
const maxIssuers = 10_000

// New returns a door that is ready to admit.
func New(c Config) *Door {
	return &Door{
		Config: c, Bounds: newBounds(), sameSite: middleware.NewSameSite(c.Origin), stale: newStaleUses(c.Commands, c.Log),
		issuers: lru.New[events.Fingerprint, events.ID](maxIssuers),
	}
}

// Run records stale token uses in the background until ctx ends. Call it once.
func (d *Door) Run(ctx context.Context) { d.stale.run(ctx) }

// Semaphores returns all semaphores, for metrics.
func (d *Door) Semaphores() []*fair.Semaphore { return d.Bounds.all() }

// Shared returns the semaphores of reads, writes and bodies, for use by /api/auth: a person has one
// share of both APIs.
func (d *Door) Shared() (reads, writes, bodies *fair.Semaphore) {
	return d.Bounds.reads, d.Bounds.writes, d.Bounds.bodies
}

// VaultTimeout bounds an operation on the vault, which does not end when the caller goes away.
const VaultTimeout = 10 * time.Second
