package rest

import (
	"context"
	"io"

	"svc/events"
	"svc/farm/joblog"
	"svc/fault"
)

// errFarmOff says that no variable of the build farm is set.
var errFarmOff = fault.New(fault.NotFound, "farm_off", "There is no build farm here.")

// Farm is what the routes of the build farm work with. The zero Farm is off: they answer
// that there is none.
type Farm struct {
	On        bool
	PublicURL string // of the gateway, without a slash at its end; "" if it is not known

	// Ready names what has to be set or filled before a machine can be enrolled: what is,
	// and what is not.
	Ready func() (set, missing []string)

	// Authority returns what signs the certificates of a workspace's runners, and makes
	// it if there is none.
	Authority func(ctx context.Context, workspace events.ID) (events.AuthorityCreated, error)

	Logs    *joblog.Logs // of jobs
	LogDays int          // that they are kept; 0 is for ever

	// Vault keeps the values of secrets of jobs.
	Vault SecretVault

	// Artifact opens a file that a job left. It is nil where none are kept.
	Artifact func(ctx context.Context, workspace, job, artifact events.ID) (io.ReadSeekCloser, error)
}
