package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"time"

	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
)

// Limits of an upload.
const (
	uploadTimeout = time.Hour // after which the service abandons the upload
	digestTries   = 3
)

type uploadAnswer struct {
	State string `json:"state"` // partial or complete
	Files []struct {
		ID      string  `json:"id"`
		State   string  `json:"state"`
		Missing []int64 `json:"missing"`
	} `json:"files"`
}

// A piece is one chunk of a file.
type piece struct {
	file executor.ManifestFile
	n    int64
}

func (p piece) size() int64 { return min(p.file.ChunkBytes, p.file.Size-p.n*p.file.ChunkBytes) }

// upload uploads the artifacts of a job and retries with backoff, or when the service says. It returns
// true when it is over, successfully or not, and false if the supervisor is about to exit.
func (s *Supervisor) upload(ctx context.Context, j *job, m executor.Manifest) bool {
	late, digests, before := time.Now().Add(uploadTimeout), 0, math.MaxInt
	for failures := 0; ; failures++ {
		missing, err := s.tryUpload(ctx, late, j, m)
		switch {
		case err == nil:
			s.log.Info("artifacts uploaded", "job", j.name(), "files", len(m.Files))
			return true
		case ctx.Err() != nil:
			return false
		case j.isDropped():
			return true
		}
		var r *identity.Refusal
		if errors.As(err, &r) && r.Code == "artifact_digest_mismatch" {
			digests++
		}
		if isFinal(r) || digests == digestTries || time.Now().After(late) {
			s.log.Error("artifacts were not uploaded", "job", j.name(), "err", err)
			return true
		}
		s.log.Warn("upload artifacts", "job", j.name(), "err", err)
		if missing < before {
			failures, before = 0, missing
		}
		pause := s.cfg.Backoff(failures)
		if r != nil {
			pause = max(pause, r.After)
		}
		if waitFor(ctx, min(pause, time.Until(late))) != nil {
			return false
		}
	}
}

// tryUpload is sendMissing, until late, with one of the slots for uploads. An upload that waits to be
// retried has none, so that it does not keep other jobs from uploading.
func (s *Supervisor) tryUpload(ctx context.Context, late time.Time, j *job, m executor.Manifest) (missing int, err error) {
	ctx, cancel := context.WithDeadline(ctx, late)
	defer cancel()
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	case <-ctx.Done():
		return math.MaxInt, fmt.Errorf("wait for other uploads: %w", ctx.Err())
	}
	return s.sendMissing(ctx, j, m)
}

// isFinal reports whether the service, or a proxy before it, will never accept the files. Too large
// files, for example, are not sent again.
func isFinal(r *identity.Refusal) bool {
	switch {
	case r == nil || r.Status >= 500 || r.Status == 429 || r.Status == 401 || r.Status == 408:
		return false
	case r.Code == "farm_job_not_finished", r.Code == "upload_incomplete", r.Code == "artifact_digest_mismatch":
		return false
	}
	return true
}

// sendMissing asks which pieces are missing and sends them, until none are. It returns how many were
// missing when it began, [math.MaxInt] if that is unknown.
func (s *Supervisor) sendMissing(ctx context.Context, j *job, m executor.Manifest) (missing int, err error) {
	missing = math.MaxInt
	answer, err := s.postArtifacts(ctx, j, m, nil)
	for err == nil && answer.State != "complete" {
		pieces := missingPieces(m, answer)
		if len(pieces) == 0 {
			return missing, errors.New("the service reports neither a complete upload nor what is missing")
		}
		missing = min(missing, len(pieces))
		answer, err = s.postArtifacts(ctx, j, m, pieces)
	}
	return missing, err
}

// missingPieces returns the pieces that the service does not have.
func missingPieces(m executor.Manifest, a uploadAnswer) (list []piece) {
	files := map[string]executor.ManifestFile{}
	for _, f := range m.Files {
		files[f.ID] = f
	}
	for _, f := range a.Files {
		for _, n := range f.Missing {
			if file := files[f.ID]; n >= 0 && n <= file.Size/max(file.ChunkBytes, 1) && file.Size > n*file.ChunkBytes {
				list = append(list, piece{file, n})
			}
		}
	}
	return list
}

// postArtifacts sends the manifest and pieces in one request.
func (s *Supervisor) postArtifacts(ctx context.Context, j *job, m executor.Manifest, pieces []piece) (a uploadAnswer, err error) {
	form, err := newUploadForm(filepath.Join(j.dir, filesFolder), m, pieces)
	if err != nil {
		return a, err
	}
	return a, s.farm.Call(ctx, http.MethodPost, "/api/v1/farm/jobs/"+j.jobID+"/artifacts", form.contentType, form, form.size, &a)
}
