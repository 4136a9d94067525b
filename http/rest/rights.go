package rest

import (
	"context"
	"slices"
	"time"

	"svc/fault"
	"svc/projections"
)

const (
	recheckEvery = time.Second           // longest time between two checks
	recheckPause = 50 * time.Millisecond // shortest time, however quickly the workspace changes
	recheckLimit = 10 * time.Second      // of one check
)

// errRightsChanged ends a long answer when the caller's rights have changed in any way. The client
// reconnects and is authorized again.
var errRightsChanged = fault.New(fault.Denied, "no_longer", "The caller's rights have changed.")

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

// recheck fails with errRightsChanged if the token, session, membership or role differs from that with
// which the caller was admitted.
func (s *Server) recheck(ctx context.Context, c *caller) error {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
	defer cancel()
	if c.token != nil {
		t, ok, err := s.tokens.Find(ctx, c.fingerprint, s.Views.ServiceAccounts.Tokens)
		if err == nil && (!ok || t.Status != projections.TokenCurrent || !slices.Equal(t.Scopes, c.token.Scopes)) {
			err = errRightsChanged
		}
		return err
	}
	ok, err := s.Sessions.Valid(ctx, c.cookie)
	if err != nil {
		return err
	}
	m, member, err := s.memberships.Find(ctx, projections.Ref{Workspace: c.workspace, ID: c.person.user}, s.Views.Members.Memberships)
	if err == nil && (!ok || !member || m.Role != c.person.role) {
		err = errRightsChanged
	}
	return err
}
