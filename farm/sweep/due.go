package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

// A dueJob is a job whose deadline has passed.
type dueJob struct {
	Workspace, Job events.ID
	State          events.JobState
	Epoch          int
	Runner         *events.ID
	Accepted       bool
	FinishedAt     *time.Time
}

// handleDue handles jobs whose deadline has passed, the most overdue first. After dueTime it leaves
// the others to the next sweep: reading the logs of many jobs takes long.
func (s *sweep) handleDue(ctx context.Context, now time.Time) error {
	begun := time.Now()
	for from := (dueJob{}); ; {
		rows, _ := s.DB.Query(ctx, `
			select workspace_id, job_id, state, epoch, runner_id, accepted, finished_at from jobs
			where due_at <= $1 and not job_id = any($3) order by due_at limit $2`, now, sweepPage, s.retrying())
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dueJob])
		if err != nil {
			return fmt.Errorf("look for due jobs: %w", err)
		}
		for _, j := range list {
			if time.Since(begun) > dueTime {
				return nil
			}
			if err := s.try(ctx, now, j.Workspace, j.Job, func() error { return s.handleDueJob(ctx, now, j) }); err != nil {
				return err
			}
		}
		if len(list) < sweepPage || list[0].Job == from.Job { // no progress: the first job is still due
			return nil
		}
		from = list[0]
	}
}

// retrying returns the jobs and runners whose step failed recently and is not retried yet.
func (s *sweep) retrying() []events.ID {
	list := []events.ID{}
	for id := range s.retryAt {
		list = append(list, id)
	}
	return list
}

func (s *sweep) handleDueJob(ctx context.Context, now time.Time, j dueJob) error {
	switch {
	case j.State.Final():
		return s.settle(ctx, now, j)
	case j.State == events.JobStateLeased && !j.Accepted && j.Runner != nil:
		return s.returnUnanswered(ctx, j)
	case j.State == events.JobStateCancelling:
		if err := s.fenceJob(ctx, ref{j.Workspace, j.Job, j.Epoch}); err != nil {
			return err
		}
	}
	_, err := s.Commands.TimeOutJob(ctx, commands.TimeOutJob{Meta: commands.SystemMeta(j.Workspace), Job: j.Job})
	return err
}

// returnUnanswered returns a job to the queue that its runner did not accept in time.
func (s *sweep) returnUnanswered(ctx context.Context, j dueJob) error {
	done, err := s.Commands.DeclineJob(ctx, commands.DeclineJob{
		Meta: commands.SystemMeta(j.Workspace), Job: j.Job, Runner: *j.Runner, Epoch: j.Epoch, Reason: farm.NoAnswer,
	})
	switch {
	case errors.Is(err, farm.ErrJobNotOwner): // it has answered meanwhile, or the job has ended
		return nil
	case err != nil || done.Idle:
		return err
	}
	return s.Decline(ctx, j.Workspace, *j.Runner, farm.NoAnswer)
}

// settle seals the logs of a job that has ended, and abandons its artifacts if they were not
// uploaded in time.
func (s *sweep) settle(ctx context.Context, now time.Time, j dueJob) error {
	open, err := s.Commands.OpenJobLogs(ctx, j.Workspace, j.Job)
	if err != nil {
		return err
	}
	for _, epoch := range open {
		if err := s.seal(ctx, j, epoch); err != nil {
			return err
		}
	}
	by := now.Add(-events.ArtifactUploadWindow)
	if j.FinishedAt == nil || j.FinishedAt.After(by) {
		return nil
	}
	_, err = s.Commands.AbandonArtifacts(ctx, commands.AbandonArtifacts{Meta: commands.SystemMeta(j.Workspace), Job: j.Job, EndedBy: by})
	return err
}

// seal records whether the log of an epoch is complete. Nothing is added to it after that.
func (s *sweep) seal(ctx context.Context, j dueJob, epoch int) error {
	if err := s.fenceJob(ctx, ref{j.Workspace, j.Job, epoch}); err != nil {
		return err
	}
	stored, err := s.digest(ctx, j, epoch)
	if err != nil {
		return err
	}
	if stored.Cut, stored.CutKnown, err = s.wasCut(ctx, j, epoch); err != nil {
		return err
	}
	_, err = s.Commands.SealJobLog(ctx, commands.SealJobLog{Meta: commands.SystemMeta(j.Workspace), Job: j.Job, Stored: stored})
	if err == nil {
		s.Logs.Moved(j.Workspace, j.Job)
	}
	return err
}

// wasCut reports whether the log of an attempt was cut at a limit. It is not known of attempts before
// the last one, whose lease has taken the place of theirs.
func (s *sweep) wasCut(ctx context.Context, j dueJob, epoch int) (cut, known bool, err error) {
	rows, _ := s.DB.Query(ctx, `select truncated from job_leases where workspace_id = $1 and job_id = $2 and epoch = $3`,
		j.Workspace, j.Job, epoch)
	list, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return false, false, fmt.Errorf("look up truncation of log of job %s: %w", j.Job, err)
	}
	return slices.Contains(list, true), len(list) > 0, nil
}

// digest reads a log from its beginning, page by page, and returns its size, digest and number of
// chunks.
func (s *sweep) digest(ctx context.Context, j dueJob, epoch int) (farm.StoredLog, error) {
	stored, sum := farm.StoredLog{Epoch: epoch}, sha256.New()
	for {
		list, err := s.Logs.Read(ctx, j.Workspace, j.Job, epoch, stored.Bytes, digestPage)
		if err != nil {
			return stored, err
		}
		if len(list) == 0 {
			break
		}
		for _, c := range list {
			if c.Offset != stored.Bytes {
				return stored, fmt.Errorf("log of job %s: nothing at byte %d", j.Job, stored.Bytes)
			}
			sum.Write(c.Data)
			stored.Bytes = c.End()
		}
	}
	stored.SHA256 = hex.EncodeToString(sum.Sum(nil))
	err := s.DB.QueryRow(ctx, `select count(*) from job_logs where workspace_id = $1 and job_id = $2 and epoch = $3`,
		j.Workspace, j.Job, epoch).Scan(&stored.Chunks)
	return stored, fault.Wrap(err, "count chunks of log of job %s", j.Job)
}

const digestPage = 4 << 20 // bytes
