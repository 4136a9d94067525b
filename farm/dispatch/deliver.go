package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"svc/commands"
	"svc/events"
	"svc/farm/wire"
)

// undelivered returns the jobs that a runner was given and does not know: what told it of
// them was lost. One that it has begun, and does not know any more, is not begun again
// here: its lease runs out.
func (d *Dispatcher) undelivered(ctx context.Context, r Runner, known []claimed) (list []events.ID, err error) {
	var jobs []events.ID
	for _, k := range known {
		jobs = append(jobs, k.job)
	}
	rows, _ := d.DB.Query(ctx, `
		select job_id from jobs where workspace_id = $1 and runner_id = $2 and state in ('leased', 'cancelling')
		and not accepted and started_at is null and not job_id = any(coalesce($3::uuid[], '{}'))`, r.Workspace, r.ID, jobs)
	if list, err = pgx.CollectRows(rows, pgx.RowTo[events.ID]); err != nil {
		return nil, fmt.Errorf("what runner %s was given: %w", r.ID, err)
	}
	return list, nil
}

// A delivery is a job as it is told to its runner.
type delivery struct {
	Job     events.ID
	Epoch   int
	Attempt int
	State   events.JobState
	Spec    events.JobSpec
}

// deliver tells the runner of a connection which jobs it was given.
func (d *Dispatcher) deliver(ctx context.Context, c *connection, jobs []events.ID) error {
	if len(jobs) == 0 {
		return nil
	}
	rows, _ := d.DB.Query(ctx, `
		select j.job_id, j.epoch, j.attempt, j.state, s.spec from jobs j
		join job_specs s on s.workspace_id = j.workspace_id and s.job_id = j.job_id
		where j.workspace_id = $1 and j.job_id = any($2) and j.runner_id = $3 and j.state in ('leased', 'cancelling') and not j.accepted`,
		c.runner.Workspace, jobs, c.runner.ID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[delivery])
	if err != nil {
		return fmt.Errorf("look up jobs of runner %s: %w", c.runner.ID, err)
	}
	for _, job := range list {
		if job.State == events.JobCancelling { // it need not begin
			if err := d.decline(ctx, c.runner, job.Job, job.Epoch, "cancelled"); err != nil {
				return err
			}
			continue
		}
		if err := d.assign(ctx, c, job); err != nil {
			return err
		}
	}
	return nil
}

// assign tells the runner of a job. One that names a secret which there is not ends.
func (d *Dispatcher) assign(ctx context.Context, c *connection, job delivery) error {
	var secrets map[string]string
	if len(job.Spec.Secrets) > 0 {
		var err error
		secrets, err = d.Reveal(ctx, c.runner.Workspace, job.Spec.Secrets)
		if missing, ok := errors.AsType[*MissingSecret](err); ok {
			return d.giveUp(ctx, c.runner, job, "there is no secret "+missing.Name)
		}
		if err != nil {
			return fmt.Errorf("secrets of job %s: %w", job.Job, err)
		}
	}
	c.mu.Lock()
	c.jobs[job.Job] = &held{epoch: job.Epoch, next: 1}
	c.mu.Unlock()
	c.send(d.assignment(job, secrets), job.Job, job.Epoch)
	return nil
}

// giveUp ends a job that no runner can run.
func (d *Dispatcher) giveUp(ctx context.Context, r Runner, job delivery, why string) error {
	if _, err := d.Commands.CancelJob(ctx, commands.CancelJob{Meta: system(r.Workspace), Job: job.Job, Reason: why}); err != nil {
		return fmt.Errorf("cancel job %s: %w", job.Job, err)
	}
	return d.decline(ctx, r, job.Job, job.Epoch, "other")
}

// decline gives a job back which the runner never began.
func (d *Dispatcher) decline(ctx context.Context, r Runner, job events.ID, epoch int, reason string) error {
	_, err := d.Commands.DeclineJob(ctx, commands.DeclineJob{Meta: system(r.Workspace), Job: job, Runner: r.ID, Epoch: epoch, Reason: reason})
	if err != nil {
		return fmt.Errorf("give job %s back: %w", job, err)
	}
	return nil
}

// assignment is what a runner is told of a job.
func (d *Dispatcher) assignment(job delivery, secrets map[string]string) wire.Assign {
	s := job.Spec
	a := wire.Assign{
		Name: s.Name, Attempt: job.Attempt, Secrets: secrets,
		Sandbox:    wire.Sandbox{Kind: s.Sandbox.Kind, Network: s.Sandbox.Network, MemoryMiB: s.Sandbox.MemoryMiB, CPUs: s.Sandbox.CPUs},
		RunSeconds: s.Timeouts.RunSeconds, GraceSeconds: s.Timeouts.CancelGraceSeconds, LeaseSeconds: int(d.LeaseTime.Seconds()),
		Env: map[string]string{
			"CI": "true", "SVC_JOB_ID": job.Job.String(), "SVC_JOB_NAME": s.Name, "SVC_JOB_ATTEMPT": strconv.Itoa(job.Attempt),
		},
	}
	for _, step := range s.Steps {
		a.Steps = append(a.Steps, wire.Step{
			Name: step.Name, Run: step.Run, Shell: step.Shell, Env: maps.Clone(step.Env), TimeoutSeconds: step.TimeoutSeconds,
		})
	}
	for _, f := range s.Artifacts {
		a.Artifacts = append(a.Artifacts, wire.Artifact{Name: f.Name, Paths: slices.Clone(f.Paths), When: f.When, Required: f.Required})
	}
	if s.Repo != nil {
		a.Env["SVC_REPO"], a.Env["SVC_COMMIT"], a.Env["SVC_REF"] = s.Repo.Name, s.Repo.Commit, s.Repo.Ref
		if url := d.CloneURL(s.Repo.Name); url != "" {
			a.Source = &wire.Source{URL: url, Commit: s.Repo.Commit, Ref: s.Repo.Ref}
		}
	}
	return a
}
