package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// DeclareArtifacts records which files a runner will upload.
type DeclareArtifacts struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Files  []events.JobArtifact

	// Admit is asked before files of a submitter's job are declared for the first time, and again if the
	// command has to be decided again. Its error refuses them. nil admits all.
	Admit func(ctx context.Context, submitter events.ID) error `json:"-"`
}

// DeclareArtifacts refuses a list that differs from an earlier one, a job that has not
// finished, and one whose artifacts are complete or abandoned; so does StoreArtifacts.
func (h *Handler) DeclareArtifacts(ctx context.Context, c DeclareArtifacts) (Result, error) {
	return h.execute(ctx, c.Meta, c, onJob(c.Job, func(ctx context.Context, _ *work, j *aggregates.Job) ([]events.Event, error) {
		declared, err := j.DeclareArtifacts(c.Runner, c.Epoch, c.Files)
		if err == nil && len(declared) > 0 && c.Admit != nil {
			err = c.Admit(ctx, j.Submitter().ID)
		}
		return declared, err
	}))
}

// StoreArtifacts records that declared files were uploaded completely and have the right
// digests.
type StoreArtifacts struct {
	Meta
	Job    events.ID
	Runner events.ID
	Epoch  int
	Files  []events.ID
}

// StoreArtifacts completes the artifacts when the last file is stored.
func (h *Handler) StoreArtifacts(ctx context.Context, c StoreArtifacts) (Result, error) {
	return h.execute(ctx, c.Meta, c, onJob(c.Job, func(_ context.Context, _ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.StoreArtifacts(c.Runner, c.Epoch, c.Files)
	}))
}

// AbandonArtifacts records that no more files of a job come.
type AbandonArtifacts struct {
	Meta
	Job events.ID
}

// AbandonArtifacts does nothing if the artifacts are complete or the job has not ended.
func (h *Handler) AbandonArtifacts(ctx context.Context, c AbandonArtifacts) (Result, error) {
	return h.execute(ctx, c.Meta, c, onJob(c.Job, func(_ context.Context, _ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.AbandonArtifacts()
	}))
}

// RemoveArtifacts records that the files of a job are removed for their age. Whoever removes them
// does so afterwards.
type RemoveArtifacts struct {
	Meta
	Job events.ID
}

// RemoveArtifacts does nothing if there are no files, or more may come.
func (h *Handler) RemoveArtifacts(ctx context.Context, c RemoveArtifacts) (Result, error) {
	return h.execute(ctx, c.Meta, c, onJob(c.Job, func(_ context.Context, _ *work, j *aggregates.Job) ([]events.Event, error) {
		return j.RemoveArtifacts()
	}))
}
