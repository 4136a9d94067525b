package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	retainTime   = time.Minute // between looks for old logs, once there are none
	retainPieces = 1024        // that are removed in one look at the clock: 64 MiB at most
)

// retain removes logs that were kept for long enough. Of many it removes a few in each look at
// the clock: whoever looks has the leases of all jobs to keep.
func (s *sweep) retain(ctx context.Context, now time.Time) error {
	if s.d.LogsKept == 0 || now.Sub(s.retained) < retainTime {
		return nil
	}
	rows, _ := s.d.DB.Query(ctx, `
		select workspace_id, job_id, epoch from job_leases where sealed_at < $1 order by sealed_at limit $2`,
		now.Add(-s.d.LogsKept), sweepPage)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ref])
	if err != nil {
		return fmt.Errorf("look for old logs: %w", err)
	}
	left := int64(retainPieces)
	for _, r := range list {
		n, err := s.removePieces(ctx, r, left)
		if left -= n; err != nil || left <= 0 {
			return err
		}
		if err := s.removeLease(ctx, r); err != nil {
			return err
		}
	}
	if len(list) < sweepPage {
		s.retained = now
	}
	return nil
}

// removePieces removes up to so many pieces of the logs of a job, the last ones first: a log that
// lacks its end counts as removed from then on.
func (s *sweep) removePieces(ctx context.Context, r ref, most int64) (int64, error) {
	done, err := s.d.DB.Exec(ctx, `
		delete from job_logs where workspace_id = $1 and ctid = any(array(
			select ctid from job_logs where workspace_id = $1 and job_id = $2 order by epoch desc, from_byte desc limit $3))`,
		r.Workspace, r.ID, most)
	if err != nil {
		return 0, fmt.Errorf("remove logs of job %s: %w", r.ID, err)
	}
	return done.RowsAffected(), nil
}

// removeLease removes the lease of a job whose logs are removed: what is left when that breaks
// off is found again.
func (s *sweep) removeLease(ctx context.Context, r ref) error {
	_, err := s.d.DB.Exec(ctx, `delete from job_leases where workspace_id = $1 and job_id = $2 and sealed_at is not null`, r.Workspace, r.ID)
	if err != nil {
		return fmt.Errorf("remove lease of job %s: %w", r.ID, err)
	}
	return nil
}
