package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/commands"
	"svc/fault"
)

const (
	retainEvery  = time.Minute // between two checks, once no old logs are left
	retainChunks = 1024        // rows removed per sweep, 64 MiB at most
	retainFiles  = 1000        // files that are looked at per sweep
	retainJobs   = 20          // jobs whose artifacts are removed per sweep
)

// removeOldLogs removes logs older than the retention, a limited number per sweep: the sweep also
// has to look after all leases.
func (s *sweep) removeOldLogs(ctx context.Context, now time.Time) error {
	if s.LogRetention == 0 || now.Sub(s.retainedAt) < retainEvery {
		return nil
	}
	rows, _ := s.DB.Query(ctx, `
		select workspace_id, job_id, epoch from job_leases where sealed_at < $1 order by sealed_at limit $2`,
		now.Add(-s.LogRetention), sweepPage)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return fmt.Errorf("look for old logs: %w", err)
	}
	left := int64(retainChunks)
	for _, r := range list {
		n, err := s.removeChunks(ctx, r, left)
		if left -= n; err != nil || left <= 0 {
			return err
		}
		if err := s.removeLease(ctx, r); err != nil {
			return err
		}
	}
	if len(list) < sweepPage {
		s.retainedAt = now
	}
	return nil
}

// removeChunks removes up to limit chunks of the logs of a job, the last ones first, so that a
// partly removed log counts as removed.
func (s *sweep) removeChunks(ctx context.Context, r ref, limit int64) (int64, error) {
	done, err := s.DB.Exec(ctx, `
		delete from job_logs where workspace_id = $1 and ctid = any(array(
			select ctid from job_logs where workspace_id = $1 and job_id = $2 order by epoch desc, from_byte desc limit $3))`,
		r.Workspace, r.ID, limit)
	return done.RowsAffected(), fault.Wrap(err, "remove logs of job %s", r.ID)
}

// removeLease removes the lease of a job after its logs. If the process dies in between, the next
// sweep finds the lease again.
func (s *sweep) removeLease(ctx context.Context, r ref) error {
	_, err := s.DB.Exec(ctx, `delete from job_leases where workspace_id = $1 and job_id = $2 and sealed_at is not null`, r.Workspace, r.ID)
	return fault.Wrap(err, "remove lease of job %s", r.ID)
}

// removeOldArtifacts removes the artifacts of jobs whose newest file is older than the retention: a
// limited number of jobs per sweep, those with the oldest files first. The files go after the event. If
// the process dies in between, SweepUnrecorded of svc/farm/artifacts removes them.
func (s *sweep) removeOldArtifacts(ctx context.Context, now time.Time) error {
	if s.ArtifactRetention == 0 || now.Sub(s.artifactsAt) < retainEvery {
		return nil
	}
	found, by := 0, now.Add(-s.ArtifactRetention)
	err := s.each(ctx, now, func(ctx context.Context, r ref) error {
		found++
		return s.removeArtifacts(ctx, r, by)
	}, `
		select distinct workspace_id, job_id, 0 from (
			select workspace_id, job_id from job_artifacts where stored_at < $1 order by stored_at limit $2) a
		where not job_id = any($4) and not exists (
			select from job_artifacts n where n.workspace_id = a.workspace_id and n.job_id = a.job_id and n.stored_at >= $1)
		limit $3`, by, retainFiles, retainJobs, s.retrying())
	if err == nil && found < retainJobs {
		s.artifactsAt = now
	}
	return err
}

// minInputAge is how long inputs are kept at least: as long as a job may wait for a runner, and run.
const minInputAge = 10 * 24 * time.Hour

// removeOldInputs removes inputs of jobs as old as artifacts may become, those of jobs that were never
// submitted too.
func (s *sweep) removeOldInputs(ctx context.Context, now time.Time) error {
	if s.ArtifactRetention == 0 || now.Sub(s.inputsAt) < retainEvery {
		return nil
	}
	n, err := s.inputs().RemoveOld(ctx, now.Add(-max(s.ArtifactRetention, minInputAge)), retainJobs)
	if err == nil && n < retainJobs {
		s.inputsAt = now
	}
	return err
}

// removeArtifacts removes the artifacts of a job that are old according to the view, if they are in the log too.
func (s *sweep) removeArtifacts(ctx context.Context, r ref, by time.Time) error {
	done, err := s.Commands.RemoveArtifacts(ctx, commands.RemoveArtifacts{Meta: commands.SystemMeta(r.Workspace), Job: r.ID, StoredBy: by})
	switch {
	case err != nil:
		return err
	case done.Idle:
		return fmt.Errorf("artifacts of job %s are not as old in the log as in their rows", r.ID)
	case s.RemoveFiles == nil:
		return nil
	}
	return fault.Wrap(s.RemoveFiles(ctx, r.Workspace, r.ID), "remove files of job %s", r.ID)
}
