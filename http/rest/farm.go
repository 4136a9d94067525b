package rest

import (
	"context"
	"crypto/x509"
	"io"

	"svc/events"
	"svc/farm/joblog"
)

// Farm configures the routes of the build farm. They fail with farm_off while On is false.
type Farm struct {
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

	Logs    *joblog.Logs
	LogDays int // retention of job logs in days; 0 keeps them forever

	ArtifactDays int // retention of artifacts in days; 0 keeps them forever

	// Vault stores the values of job secrets.
	Vault SecretVault

	// Artifact opens an artifact. It is nil if artifacts are not stored.
	Artifact func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error)
}
