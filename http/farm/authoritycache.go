package farm

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc/events"
	"svc/farm/certificate"
	"svc/lru"
	"svc/vault"
)

// An authorityCache caches which certificates of authorities the vault confirms, by workspace. A list in
// the cache does not change.
type authorityCache struct {
	byWorkspace *lru.Cache[events.ID, []checkedAuthority]
}

// A checkedAuthority is the certificate in a row of the table of authorities, and the result of the
// check.
type checkedAuthority struct {
	text        string            // PEM
	certificate *x509.Certificate // nil if it is not trusted
	checkedAt   time.Time
}

const (
	maxWorkspaces = 10_000      // in the cache
	recheckAfter  = time.Minute // of certificates that were not trusted
)

func newAuthorityCache() authorityCache {
	return authorityCache{lru.New[events.ID, []checkedAuthority](maxWorkspaces)}
}

// signed reports whether a cached authority of the workspace has signed a certificate.
func (a authorityCache) signed(shown *x509.Certificate, workspace events.ID, at time.Time) bool {
	list, ok := a.byWorkspace.Get(workspace)
	return ok && certificate.Verify(shown, trustedOf(list), at) == nil
}

func trustedOf(list []checkedAuthority) (trusted []*x509.Certificate) {
	for _, a := range list {
		if a.certificate != nil {
			trusted = append(trusted, a.certificate)
		}
	}
	return trusted
}

// trustedAuthorities returns the workspace's authorities, given the certificates in the rows of the
// database. Whoever can write to the database can add rows, but not seal a key in the vault. A
// certificate that the vault does not confirm is therefore ignored, with an ERROR line.
func (s *Server) trustedAuthorities(ctx context.Context, workspace events.ID, rows []string) ([]*x509.Certificate, error) {
	known, _ := s.authorities.byWorkspace.Get(workspace)
	list, now, changed := make([]checkedAuthority, len(rows)), s.Now(), len(known) != len(rows)
	for i, text := range rows {
		at := slices.IndexFunc(known, func(a checkedAuthority) bool {
			return a.text == text && (a.certificate != nil || now.Before(a.checkedAt.Add(recheckAfter)))
		})
		if at >= 0 {
			list[i] = known[at]
			continue
		}
		c, err := s.checkAuthority(ctx, workspace, text)
		if err != nil {
			return nil, err
		}
		list[i], changed = checkedAuthority{text, c, now}, true
	}
	if changed {
		s.authorities.byWorkspace.Add(workspace, list)
	}
	return trustedOf(list), nil
}

// checkAuthority returns the certificate of an authority if the vault has its key, or has it as one
// whose key was lost; otherwise nil. The error wraps [ErrAuthorityUnavailable] if the vault's master
// key is wrong.
func (s *Server) checkAuthority(ctx context.Context, workspace events.ID, text string) (*x509.Certificate, error) {
	key, ok, err := s.Secrets.Get(ctx, certificate.SecretName(workspace))
	if err != nil {
		return nil, authorityError(err)
	}
	why := errors.New("the vault has no key for it")
	if ok {
		var a *certificate.Authority
		if a, why = certificate.OpenAuthority(text, key); why == nil {
			return a.Certificate, nil
		}
	}
	former, ok, err := s.Secrets.Get(ctx, certificate.FormerName(workspace, text))
	switch {
	case unopenable(err):
		why = err
	case err != nil:
		return nil, err
	case ok && string(former) == text:
		return certificate.Parse(text)
	}
	s.Log.ErrorContext(ctx, "the certificate of an authority is ignored: it was not stored by this service",
		"workspace", workspace, "err", why)
	return nil, nil
}

// unopenable reports whether no key of the vault opens a secret.
func unopenable(err error) bool {
	return errors.Is(err, vault.ErrKeyChanged) || errors.Is(err, vault.ErrTampered)
}

// authorityError makes err wrap [ErrAuthorityUnavailable] if the key of an authority cannot be opened.
func authorityError(err error) error {
	if unopenable(err) {
		return fmt.Errorf("%w: %w", ErrAuthorityUnavailable, err)
	}
	return err
}
