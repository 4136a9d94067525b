package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"svc/events"
)

// ErrFileTooLarge says that a file is larger than its reader wants it to be.
var ErrFileTooLarge = errors.New("the artifact is too large")

// ReadFile returns a file that a job left in its working directory. Which files there are, and their
// digests, is read from the log, not from the view, in which somebody who can write to the database could
// swap them. Its error wraps [ErrMissing] if the job left no such file, or it was removed for its age, and
// [ErrFileTooLarge] if it has more than limit bytes.
func ReadFile(ctx context.Context, store Store, log events.Streams, workspace, job events.ID, path string, limit int64) ([]byte, error) {
	file, err := findFile(ctx, log, workspace, job, path)
	if err == nil && file.Size > limit {
		err = ErrFileTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read %q of job %s: %w", path, job, err)
	}
	r, err := Open(ctx, store, workspace, job, file.ID)
	if err != nil {
		return nil, fmt.Errorf("read %q of job %s: %w", path, job, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, file.Size+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %q of job %s: %w", path, job, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != file.SHA256 {
		return nil, fmt.Errorf("read %q of job %s: it is not what the runner has sent", path, job)
	}
	return data, nil
}

// findFile returns the stored file at a path.
func findFile(ctx context.Context, log events.Streams, workspace, job events.ID, path string) (file events.JobArtifact, err error) {
	for r, err := range events.ReadStream(ctx, log, workspace, job) {
		if err != nil {
			return file, fmt.Errorf("load job: %w", err)
		}
		switch e := r.Event.(type) {
		case events.JobArtifactStored:
			if e.File.Path == path {
				file = e.File
			}
		case events.JobArtifactsRemoved:
			file = events.JobArtifact{}
		}
	}
	if file.ID.IsZero() {
		return file, ErrMissing
	}
	return file, nil
}
