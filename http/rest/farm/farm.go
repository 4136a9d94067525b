package farm

import (
	"context"
	"crypto/x509"

	"svc/events"
)

// Config configures the routes of the build farm. They fail with farm_off while On is false.
type Config struct {
	On        bool
	PublicURL string // of the gateway, without a trailing slash; "" if it is not set

	// GatewayCA has the certificates of the private CA that the gateway's certificate is of. It is empty
	// if machines trust the gateway by themselves.
	GatewayCA []*x509.Certificate

	// Ready returns the prerequisites of enrolling a machine, variables and release files: those that
	// are set, and those that are missing.
	Ready func() (set, missing []string)

	// Authority returns the authority that signs the certificates of a workspace's runners, and
	// creates it if there is none.
	Authority func(ctx context.Context, workspace events.ID) (events.AuthorityCreated, error)

	// Vault stores the values of job secrets.
	Vault SecretVault
}
