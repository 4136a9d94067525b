package door

import (
	"context"
	"slices"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/fair"
	"svc/http/rest/schema"
	"svc/input"
	"svc/projections"
	"svc/sessions"
)

var errPrincipalRefused = fault.New(fault.Denied, "service_principal_refused",
	"Service accounts cannot call this route; it needs a person's session.")

// A Caller is the authenticated sender of a request and the workspace that it acts in. Exactly one
// of person and token is set.
type Caller struct {
	Workspace events.ID
	Slug      string
	deleted   bool // the workspace is a deleted one
	Person    *Person
	Token     *projections.ServiceToken
	Envelope  events.Envelope // without the User-Agent, see [Caller.Meta]
	FoundAt   time.Time       // when the look-up of the credential began; see [Door.RecheckIfStale]

	Position  int64     // that the request requires of the views it reads; 0 if none
	waitUntil time.Time // how long it waits for position

	// The credential: a session or the fingerprint of a token.
	session     sessions.Session
	Fingerprint events.Fingerprint

	target    string // the id in the request's path, as sent
	userAgent string // as sent
	slots     []*fair.Slot
}

// ReleaseSlots releases every slot that the request holds. It is called once the answer is written.
func (c *Caller) ReleaseSlots() {
	for _, slot := range c.slots {
		slot.Release()
	}
	c.slots = nil
}

type callerKey struct{}

// CallerOf returns the caller of a request. It panics if the route has no guard.
func CallerOf(ctx context.Context) *Caller { return ctx.Value(callerKey{}).(*Caller) }

// WithCaller returns the context of a request of c.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// ReleaseWorkspace makes the slots of a request count no longer against the workspace. It is called
// before the answer is written, so that a client that does not read holds up nobody else.
func ReleaseWorkspace(ctx context.Context) {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		for _, slot := range c.slots {
			slot.ReleaseWorkspace()
		}
	}
}

// A Person is a caller with a session.
type Person struct {
	User         events.ID
	Name         string
	active       *events.ID              // the session's active workspace, used if a request names none
	current      *projections.Membership // in the active workspace; nil if they are not a member
	Member       events.ID
	Role         events.Role
	ApproveLoops bool
}

// Meta returns the metadata of a command of the caller.
func (c *Caller) Meta() commands.Meta {
	e := c.Envelope
	e.UserAgent = input.UserAgent(c.userAgent)
	return commands.Meta{Envelope: e, Workspace: c.Workspace}
}

// MetaWithKey returns metadata with the request's idempotency key, if it has one.
func (c *Caller) MetaWithKey(key schema.Idempotency) commands.Meta {
	m := c.Meta()
	m.Key = key.Key
	return m
}

// May refuses a caller without the role or scope that g requires.
func (c *Caller) May(g Guard) error {
	switch {
	case c.Token != nil && !slices.Contains(c.Token.Scopes, g.Scope):
		return aggregates.ErrScopeMissing(g.Scope)
	case c.Person != nil && !g.Members && !c.Person.Role.May(g.Right) && !(g.Own && c.names(c.Person.Member)):
		return aggregates.RoleRequired(g.Right)
	}
	return nil
}

// names reports whether the request's path names id.
func (c *Caller) names(id events.ID) bool {
	target, err := events.ParseID(c.target)
	return err == nil && target == id
}
