package loop

import (
	"context"
	"slices"

	"svc/aggregates"
	"svc/events"
	"svc/loop/outcome"
)

// failureOf tells how a job failed. It is "" for a job that has not failed.
func (r *runner) failureOf(ctx context.Context, job events.ID) (string, error) {
	s, err := r.Commands.RunJobState(ctx, r.workspace, job)
	if err != nil || s.State != events.JobStateFailed || s.Epoch == 0 {
		return "", err
	}
	tail, err := r.Logs.Tail(ctx, r.workspace, job, s.Epoch, maxLogTail)
	return outcome.Failure(tail, maxLogTail), err
}

// isSameFailure reports whether a job failed in the round before in the same way.
func isSameFailure(p *aggregates.Progress, j *aggregates.RunJob) bool {
	return j.Failure != "" && slices.ContainsFunc(p.Jobs, func(o aggregates.RunJob) bool {
		return !o.Purpose.IsImplementers() && o.Name == j.Name && o.Round == j.Round-1 && o.Failure == j.Failure
	})
}
