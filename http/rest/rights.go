package rest

import (
	"context"
	"slices"
	"time"

	"svc/fault"
	"svc/projections"
)

const (
	recheckEvery = time.Second           // of those who are being answered for long
	recheckPause = 50 * time.Millisecond // however quickly their workspace changes
	recheckLimit = 10 * time.Second      // for the database
)

// errNoLonger ends a long answer whose reader may no longer read it, or no
// longer as much, or more: they come again and are asked who they are.
var errNoLonger = fault.New(fault.Denied, "no_longer", "The caller's rights have changed.")

// rights are those of a caller who is being answered for long.
type rights struct {
	server  *Server
	caller  *caller
	moved   <-chan struct{} // has a value when the workspace may have changed
	checked time.Time       // when it was last looked whether they still have them
}

func (s *Server) newRights(c *caller, moved <-chan struct{}) *rights {
	return &rights{server: s, caller: c, moved: moved, checked: time.Now()}
}

// still returns why the caller may not go on. It looks when the workspace has
// changed, and each second.
func (r *rights) still(ctx context.Context) error {
	since := time.Since(r.checked)
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
	r.checked = time.Now()
	return r.server.recheck(ctx, r.caller)
}

// recheck looks whether the caller is who they were when they were let in.
func (s *Server) recheck(ctx context.Context, c *caller) error {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
	defer cancel()
	if c.token != nil {
		t, ok, err := s.tokens.Find(ctx, c.fingerprint, s.views.ServiceAccounts.Tokens)
		if err == nil && (!ok || t.Status != projections.TokenCurrent || !slices.Equal(t.Scopes, c.token.Scopes)) {
			err = errNoLonger
		}
		return err
	}
	ok, err := s.sessions.Valid(ctx, c.cookie)
	if err != nil {
		return err
	}
	m, member, err := s.memberships.Find(ctx, projections.Ref{Workspace: c.workspace, ID: c.person.user}, s.views.Members.Memberships)
	if err == nil && (!ok || !member || m.Role != c.person.role) {
		err = errNoLonger
	}
	return err
}
