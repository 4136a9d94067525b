package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// DeclareArtifacts says which files a runner is about to upload.
type DeclareArtifacts struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Files  []events.JobArtifact
}

// DeclareArtifacts refuses other files than were declared before, a job that has not
// finished, and one whose artifacts are complete or abandoned; as does StoreArtifacts.
func (h *Handler) DeclareArtifacts(ctx context.Context, c DeclareArtifacts) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.DeclareArtifacts(c.Runner, c.Epoch, c.Files)
	})
}

// StoreArtifacts says that declared files are in the store, whole and with their digests.
type StoreArtifacts struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Files  []events.ID
}

// StoreArtifacts completes the artifacts with the last file.
func (h *Handler) StoreArtifacts(ctx context.Context, c StoreArtifacts) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.StoreArtifacts(c.Runner, c.Epoch, c.Files)
	})
}

// AbandonArtifacts says that no more files of a job come.
type AbandonArtifacts struct {
	Meta
	Job events.ID
}

// AbandonArtifacts does nothing if the artifacts are complete or the job goes on.
func (h *Handler) AbandonArtifacts(ctx context.Context, c AbandonArtifacts) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.AbandonArtifacts()
	})
}
