package rest

import (
	"context"
	"errors"
	"slices"
	"time"

	"svc/aggregates"
	"svc/fault"
	"svc/projections"
	"svc/sessions"
)

const (
	recheckEvery = time.Second           // longest time between two checks
	recheckPause = 50 * time.Millisecond // shortest time, however quickly the workspace changes
	recheckLimit = 10 * time.Second      // of one check
)

// errRightsChanged ends a request or a long answer when the caller's role or scopes have changed, to
// more or to less. The client sends the request again and is authorized anew.
var errRightsChanged = fault.New(fault.Denied, "rights_changed", "The caller's rights have changed meanwhile. Send the request again.")

// rights rechecks the rights of a caller during a long answer.
type rights struct {
	server    *Server
	caller    *caller
	moved     <-chan struct{} // receives when the workspace's log may have grown
	checkedAt time.Time       // the last check
}

func (s *Server) newRights(c *caller, moved <-chan struct{}) *rights {
	return &rights{server: s, caller: c, moved: moved, checkedAt: time.Now()}
}

// check fails if the caller's rights have changed. It looks them up once a second and when the workspace
// has changed; other calls return nil at once.
func (r *rights) check(ctx context.Context) error {
	since := time.Since(r.checkedAt)
	due := since >= recheckEvery
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
	return r.server.recheck(ctx, r.caller)
}

// recheckIfStale rechecks the rights of a caller who was looked up a while ago, because the request has
// since waited for its body, a slot or a position.
func (s *Server) recheckIfStale(ctx context.Context, c *caller) error {
	if s.Now().Sub(c.foundAt) < sessions.FreshFor {
		return nil
	}
	return s.recheck(ctx, c)
}

// recheck fails as a new request would if the caller's token, session or membership has ended, and with
// errRightsChanged if the scopes or the role differ from those with which the caller was admitted.
func (s *Server) recheck(ctx context.Context, c *caller) error {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
	defer cancel()
	if c.token != nil {
		t, ok, err := s.tokens.Find(ctx, c.fingerprint, s.Primary.ServiceAccounts.Tokens)
		switch {
		case err != nil:
			return err
		case !ok || t.Status != projections.TokenCurrent:
			return aggregates.ErrTokenInvalid
		case t.Slug == "": // the workspace was deleted
			return fault.ErrTenantNotFound
		case !slices.Equal(t.Scopes, c.token.Scopes):
			return errRightsChanged
		}
		return nil
	}
	switch _, ok, err := s.Sessions.FindAgain(ctx, c.session); {
	case err != nil:
		return err
	case !ok:
		return fault.ErrUnauthenticated
	}
	m, ok, err := s.membershipIn(ctx, c, c.workspace)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.ErrTenantNotFound
	case m.Role != c.person.role:
		return errRightsChanged
	}
	return nil
}

// rightsEnded reports whether a recheck failed because of the caller's rights and not of the service.
func rightsEnded(err error) bool {
	for _, ended := range []error{errRightsChanged, aggregates.ErrTokenInvalid, fault.ErrUnauthenticated, fault.ErrTenantNotFound} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return false
}
