package commands

import (
	"context"
	"time"

	"svc/aggregates/farm"
	"svc/commands/work"
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
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		declared, err := j.DeclareArtifacts(c.Runner, c.Epoch, c.Files)
		if err == nil && len(declared) > 0 && c.Admit != nil {
			err = c.Admit(w.Context(), j.Submitter().ID)
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
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(_ *work.Unit, j *farm.Job) ([]events.Event, error) {
		return j.StoreArtifacts(c.Runner, c.Epoch, c.Files)
	}))
}

// AbandonArtifacts records that no more files of a job come, if it finished at EndedBy or earlier.
type AbandonArtifacts struct {
	Meta
	Job     events.ID
	EndedBy time.Time
}

// AbandonArtifacts does nothing if the artifacts are complete or the job has not ended by then.
func (h *Handler) AbandonArtifacts(ctx context.Context, c AbandonArtifacts) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return unlessAppended(w, c.Job, events.JobFinished{}.Kind(), c.EndedBy, j.AbandonArtifacts)
	}))
}

// RemoveArtifacts records that the files of a job are removed for their age, if all were stored at StoredBy or
// earlier. Whoever removes them does so afterwards.
type RemoveArtifacts struct {
	Meta
	Job      events.ID
	StoredBy time.Time
}

// RemoveArtifacts does nothing if there are no files, more may come, or one was stored later.
func (h *Handler) RemoveArtifacts(ctx context.Context, c RemoveArtifacts) (Result, error) {
	return h.Execute(ctx, c.Meta, c, onJob(c.Job, func(w *work.Unit, j *farm.Job) ([]events.Event, error) {
		return unlessAppended(w, c.Job, events.JobArtifactStored{}.Kind(), c.StoredBy, j.RemoveArtifacts)
	}))
}
