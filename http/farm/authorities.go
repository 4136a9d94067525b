package farm

import (
	"crypto/x509"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/events"
	"svc/farm/certificate"
)

// authorities remember who signed certificates that counted. They let nobody in.
type authorities struct {
	of *lru.Cache[events.ID, []*x509.Certificate] // by workspace
}

// remembered is how many workspaces authorities are remembered of.
const remembered = 10_000

func newAuthorities() authorities {
	c, err := lru.New[events.ID, []*x509.Certificate](remembered)
	if err != nil {
		panic(err) // a size below 1
	}
	return authorities{c}
}

func (a authorities) remember(workspace events.ID, list []*x509.Certificate) {
	a.of.Add(workspace, list)
}

// signed reports whether one of a workspace's authorities has signed a certificate.
func (a authorities) signed(shown *x509.Certificate, workspace events.ID, at time.Time) bool {
	list, ok := a.of.Get(workspace)
	return ok && certificate.Verify(shown, list, at) == nil
}
