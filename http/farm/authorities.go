package farm

import (
	"crypto/x509"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/events"
	"svc/farm/certificate"
)

// An authorities caches the authorities of workspaces. It only decides by what a request's rate is
// limited, and never admits anybody.
type authorities struct {
	byWorkspace *lru.Cache[events.ID, []*x509.Certificate]
}

// maxWorkspaces is the size of the cache.
const maxWorkspaces = 10_000

func newAuthorities() authorities {
	c, err := lru.New[events.ID, []*x509.Certificate](maxWorkspaces)
	if err != nil {
		panic(err) // a size below 1
	}
	return authorities{c}
}

func (a authorities) remember(workspace events.ID, list []*x509.Certificate) {
	a.byWorkspace.Add(workspace, list)
}

// signed reports whether a cached authority of the workspace has signed a certificate.
func (a authorities) signed(shown *x509.Certificate, workspace events.ID, at time.Time) bool {
	list, ok := a.byWorkspace.Get(workspace)
	return ok && certificate.Verify(shown, list, at) == nil
}
