package farmviews

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
	"svc/fault"
)

// Artifacts is the view of the files that jobs left. It is inline, so that whoever has uploaded one
// finds it at once.
type Artifacts struct{ DB *pgxpool.Pool }

// Page returns the artifacts of a job by path, and the number on all pages. ok is false if the
// workspace has no such job.
func (v Artifacts) Page(
	ctx context.Context, workspace, job events.ID, limit, offset int,
) (list []JobArtifact, total int, ok bool, err error) {
	err = v.DB.QueryRow(ctx, `
		select exists (select from jobs where workspace_id = $1 and job_id = $2),
			(select count(*) from job_artifacts where workspace_id = $1 and job_id = $2)`, workspace, job).Scan(&ok, &total)
	if err != nil || total == 0 {
		return nil, 0, ok, wrapArtifacts(job, err)
	}
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, artifact_id, job_id, epoch, name, path, size, sha256, mode, stored_at
		from job_artifacts where workspace_id = $1 and job_id = $2
		order by path, artifact_id limit $3 offset $4`, workspace, job, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByName[JobArtifact])
	return list, total, ok, wrapArtifacts(job, err)
}

// Get returns an artifact. ofJob is false if the workspace has no such job, found if the job has no
// such artifact.
func (v Artifacts) Get(ctx context.Context, workspace, job, artifact events.ID) (a JobArtifact, ofJob, found bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, artifact_id, job_id, epoch, name, path, size, sha256, mode, stored_at
		from job_artifacts where workspace_id = $1 and artifact_id = $3 and job_id = $2`, workspace, job, artifact)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[JobArtifact])
	switch {
	case err != nil:
		return a, false, false, wrapArtifacts(job, err)
	case len(list) == 1:
		return list[0], true, true, nil
	}
	_, _, ofJob, err = v.Page(ctx, workspace, job, 0, 0)
	return a, ofJob, false, err
}

// Removed reports whether the artifacts of a job were removed for their age.
func (v Artifacts) Removed(ctx context.Context, workspace, job events.ID) (bool, error) {
	row, _, err := Jobs(v).Get(ctx, workspace, job)
	return row.Artifacts.State == "removed", err
}

// AbandonedArtifacts tells which artifacts of jobs are left of abandoned uploads.
type AbandonedArtifacts struct {
	DB  *pgxpool.Pool
	Log events.Streams
}

// Stored returns the completely stored artifacts of a job whose upload was abandoned, none if its artifacts were
// removed. It reads them from the log, which checks the events, and not only from the view, because the caller deletes
// all others. ok is false for any other job, and if an event was not appended by this service, which the log reports.
func (a AbandonedArtifacts) Stored(ctx context.Context, workspace, job events.ID) (keep []events.ID, ok bool, err error) {
	row, found, err := Jobs{a.DB}.Get(ctx, workspace, job)
	if err != nil || !found || row.Artifacts.State != "abandoned" && row.Artifacts.State != "removed" {
		return nil, false, err
	}
	for r, err := range events.ReadStream(ctx, a.Log, workspace, job) {
		switch {
		case errors.Is(err, store.ErrForeign):
			return nil, false, nil
		case err != nil:
			return nil, false, wrapArtifacts(job, err)
		}
		switch e := r.Event.(type) {
		case events.JobArtifactStored:
			keep = append(keep, e.File.ID)
		case events.JobArtifactsAbandoned:
			ok = true
		case events.JobArtifactsRemoved:
			keep, ok = nil, true
		}
	}
	return keep, ok, nil
}

func wrapArtifacts(job events.ID, err error) error {
	return fault.Wrap(err, "read artifacts of job %s", job)
}
