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
// finished, and one whose artifacts are complete or abandoned; as does StoreArtifact.
func (h *Handler) DeclareArtifacts(ctx context.Context, c DeclareArtifacts) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.DeclareArtifacts(c.Runner, c.Epoch, c.Files)
	})
}

// StoreArtifact says that a declared file is in the store, whole and with its digest.
type StoreArtifact struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	File   events.ID
}

// StoreArtifact completes the artifacts with the last file.
func (h *Handler) StoreArtifact(ctx context.Context, c StoreArtifact) (Result, error) {
	return h.carryJob(ctx, c.Meta, c, c.Job, func(_ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.StoreArtifact(c.Runner, c.Epoch, c.File)
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
