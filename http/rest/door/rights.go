package door

import (
	"context"
	"errors"
	"slices"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/projections"
	"svc/sessions"
)

// RecheckEvery is the longest time between two checks of the caller of a long answer.
const RecheckEvery = time.Second

const (
	recheckPause = 50 * time.Millisecond // shortest time, however quickly the workspace changes
	recheckLimit = 10 * time.Second      // of one check
)

// ErrRightsChanged ends a request or a long answer when the caller's role or scopes have changed, to
// more or to less. The client sends the request again and is authorized anew.
var ErrRightsChanged = fault.New(fault.Denied, "rights_changed", "The caller's rights have changed meanwhile. Send the request again.")

// rights rechecks the rights of a caller during a long answer.
type rights struct {
	door      *Door
	caller    *Caller
	moved     <-chan struct{} // receives when the workspace's log may have grown
	checkedAt time.Time       // the last check
}

// WatchRights returns a function that fails once the rights of c have changed, to be called during a long
// answer, and one that ends the watch.
func (d *Door) WatchRights(ctx context.Context, c *Caller) (check func() error, stop func()) {
	watch := d.Live.Watch(c.Workspace, nil)
	r := &rights{door: d, caller: c, moved: watch.Moved, checkedAt: time.Now()}
	return func() error { return r.check(ctx) }, watch.Close
}

// check fails if the caller's rights have changed. It looks them up once a second and when the workspace
// has changed; other calls return nil at once.
func (r *rights) check(ctx context.Context) error {
	since := time.Since(r.checkedAt)
	due := since >= RecheckEvery
	if since >= recheckPause && !due {
		select {
		case <-r.moved:
			due = true
		default:
		}
	}
	if !due {
		return nil
	}
	r.checkedAt = time.Now()
	return r.door.Recheck(ctx, r.caller)
}

// RecheckIfStale rechecks the rights of a caller who was looked up a while ago, because the request has
// since waited for its body, a slot or a position.
func (d *Door) RecheckIfStale(ctx context.Context, c *Caller) error {
	if d.Now().Sub(c.FoundAt) < sessions.FreshFor {
		return nil
	}
	return d.Recheck(ctx, c)
}

// Recheck fails as a new request would if the caller's token, session or membership has ended, and with
// ErrRightsChanged if the scopes or the role differ from those with which the caller was admitted.
func (d *Door) Recheck(ctx context.Context, c *Caller) error {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
	defer cancel()
	if c.Token != nil {
		t, ok, err := d.tokens.Find(ctx, c.Fingerprint, d.ServiceAccounts.Tokens)
		switch {
		case err != nil:
			return err
		case !ok || t.Status != projections.TokenCurrent:
			return aggregates.ErrTokenInvalid
		case t.Slug == "": // the workspace was deleted
			return fault.ErrTenantNotFound
		case !slices.Equal(t.Scopes, c.Token.Scopes):
			return ErrRightsChanged
		}
		return nil
	}
	switch _, ok, err := d.Sessions.FindAgain(ctx, c.session); {
	case err != nil:
		return err
	case !ok:
		return fault.ErrUnauthenticated
	}
	m, ok, err := d.membershipIn(ctx, c, c.Workspace)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.ErrTenantNotFound
	case m.Role != c.Person.Role:
		return ErrRightsChanged
	}
	return nil
}

// membershipIn returns the caller's membership in a workspace.
func (d *Door) membershipIn(ctx context.Context, c *Caller, workspace events.ID) (m projections.Membership, ok bool, err error) {
	if c.deleted {
		return d.Workspaces.DeletedMembership(ctx, workspace, c.Person.User)
	}
	return d.memberships.Find(ctx, projections.Ref{Workspace: workspace, ID: c.Person.User}, d.Members.Memberships)
}

// RightsEnded reports whether a recheck failed because of the caller's rights and not of the service.
func RightsEnded(err error) bool {
	for _, ended := range []error{ErrRightsChanged, aggregates.ErrTokenInvalid, fault.ErrUnauthenticated, fault.ErrTenantNotFound} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return false
}
