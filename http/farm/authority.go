package farm

import (
	"context"

	"svc/events"
	"svc/farm/certificate"
	"svc/fault"
)

// ErrAuthorityUnavailable says that the key of an authority cannot be decrypted. The log has the
// reason.
var ErrAuthorityUnavailable = fault.New(fault.Unavailable, "authority_unavailable",
	"No certificate can be issued or checked at the moment.")

// Authority returns the public data of the authority of a workspace's runners. The authority is
// created on first use. Its key never leaves the vault and this package.
func (s *Server) Authority(ctx context.Context, workspace events.ID) (events.AuthorityCreated, error) {
	a, err := s.authority(ctx, workspace)
	if err != nil {
		return events.AuthorityCreated{}, err
	}
	return authorityEvent(a), nil
}

func (s *Server) authority(ctx context.Context, workspace events.ID) (*certificate.Authority, error) {
	key, text, err := s.Secrets.GetOrCreate(ctx, certificate.SecretName(workspace), func() ([]byte, string, error) {
		return certificate.MakeAuthority(workspace, s.Now())
	})
	if err != nil {
		return nil, authorityError(err)
	}
	return certificate.OpenAuthority(text, key)
}

func authorityEvent(a *certificate.Authority) events.AuthorityCreated {
	return events.AuthorityCreated{Authority: a.ID, Certificate: a.PEM(), NotAfter: a.Certificate.NotAfter.UTC()}
}
