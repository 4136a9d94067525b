package farm

import (
	"context"
	"time"

	"svc/events"
	"svc/farm/certificate"
)

// Authority returns what is known of the authority that signs the certificates of a
// workspace's runners. Who asks first makes it; its key never leaves the vault and this
// package.
func (s *Server) Authority(ctx context.Context, workspace events.ID) (events.AuthorityCreated, error) {
	a, err := s.authority(ctx, workspace)
	if err != nil {
		return events.AuthorityCreated{}, err
	}
	return created(a), nil
}

func (s *Server) authority(ctx context.Context, workspace events.ID) (*certificate.Authority, error) {
	key, text, err := s.Secrets.GetOrMake(ctx, AuthoritySecret(workspace), func() ([]byte, string, error) {
		return NewAuthority(workspace, s.Now())
	})
	if err != nil {
		return nil, err
	}
	return certificate.OpenAuthority(text, key)
}

// NewAuthority makes the key and the certificate of an authority.
func NewAuthority(workspace events.ID, at time.Time) (key []byte, text string, err error) {
	a, err := certificate.NewAuthority(workspace, events.NewID(at), at)
	if err != nil {
		return nil, "", err
	}
	key, err = a.Key()
	return key, a.PEM(), err
}

// AuthoritySecret is the name under which the vault has the key of a workspace's authority.
func AuthoritySecret(workspace events.ID) string { return "farm_authority/" + workspace.String() }

func created(a *certificate.Authority) events.AuthorityCreated {
	return events.AuthorityCreated{Authority: a.ID, Certificate: a.PEM(), NotAfter: a.Certificate.NotAfter.UTC()}
}
