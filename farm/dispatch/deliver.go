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

// deliverPage is how many specifications of jobs are looked up together.
const deliverPage = 8

// given notes that the runner has jobs that it has to be told of. Until it is they take its places.
func (c *connection) given(jobs []events.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, job := range jobs {
		if !slices.Contains(c.untold, job) {
			c.untold = append(c.untold, job)
		}
	}
}

// waits reports whether there are jobs that the runner has to be told of.
func (c *connection) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.untold) > 0
}

// settled notes that there is nothing more to tell the runner of a job.
func (c *connection) settled(job events.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untold = slices.DeleteFunc(c.untold, func(id events.ID) bool { return id == job })
}

// deliver tells the runner of the jobs that it was given, as long as there is room for what
// it is told: who writes to it asks again when there is. What goes wrong with a job is tried
// again too, until the time that the runner has to accept it is over.
func (d *Dispatcher) deliver(ctx context.Context, c *connection) {
	c.mu.Lock()
	jobs := slices.Clone(c.untold)
	c.mu.Unlock()
	for page := range slices.Chunk(jobs, deliverPage) {
		list, err := d.deliveries(ctx, c.runner, page)
		if err != nil {
			d.warn("tell a runner of its jobs", err, "runner", c.runner.ID)
			return
		}
		for _, id := range page {
			told := true // of one that somebody else has, or nobody, there is nothing to tell
			if job, ok := list[id]; ok {
				if told, err = d.tell(ctx, c, job); err != nil {
					d.warn("tell a runner of a job", err, "runner", c.runner.ID, "job", id)
					continue
				}
			}
			if !told {
				return
			}
			c.settled(id)
		}
	}
}

// deliveries looks up jobs that a runner was given and has not accepted.
func (d *Dispatcher) deliveries(ctx context.Context, r Runner, jobs []events.ID) (map[events.ID]delivery, error) {
	rows, _ := d.DB.Query(ctx, `
		select j.job_id, j.epoch, j.attempt, j.state, s.spec from jobs j
		join job_specs s on s.workspace_id = j.workspace_id and s.job_id = j.job_id
		where j.workspace_id = $1 and j.job_id = any($2) and j.runner_id = $3 and j.state in ('leased', 'cancelling') and not j.accepted`,
		r.Workspace, jobs, r.ID)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[delivery])
	if err != nil {
		return nil, fmt.Errorf("look up jobs of runner %s: %w", r.ID, err)
	}
	by := make(map[events.ID]delivery, len(list))
	for _, job := range list {
		by[job.Job] = job
	}
	return by, nil
}

// tell tells the runner of a job, and reports whether there was room for that. One that is
// being cancelled need not begin, and one that no runner can run ends.
func (d *Dispatcher) tell(ctx context.Context, c *connection, job delivery) (told bool, err error) {
	if job.State == events.JobCancelling {
		return true, d.decline(ctx, c.runner, job.Job, job.Epoch, "cancelled")
	}
	var secrets map[string]string
	if len(job.Spec.Secrets) > 0 {
		if secrets, err = d.Reveal(ctx, c.runner.Workspace, job.Spec.Secrets); err != nil {
			return true, d.withoutSecrets(ctx, c.runner, job, err)
		}
	}
	frame, err := wire.EncodeFor(d.assignment(job, secrets), d.Now(), job.Job.String(), job.Epoch, 0)
	switch {
	case err != nil:
		return false, err
	case len(frame) > wire.MaxAssign: // no runner would read it
		return true, d.giveUp(ctx, c.runner, job, "its secrets are too large together")
	}
	return c.assign(job, frame), nil
}

// assign sends an assignment, and reports whether there was room for it.
func (c *connection) assign(job delivery, frame []byte) bool {
	c.mu.Lock()
	c.jobs[job.Job] = &held{epoch: job.Epoch, next: 1} // the runner may answer at once
	c.mu.Unlock()
	if c.out.putAssign(frame) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, job.Job)
	return false
}

// withoutSecrets ends a job that names a secret which no runner can be told. Where it is not
// the secret's fault the job goes back to the queue, and rests there the longer the more often.
func (d *Dispatcher) withoutSecrets(ctx context.Context, r Runner, job delivery, why error) error {
	missing, is := errors.AsType[*MissingSecret](why)
	if is {
		return d.giveUp(ctx, r, job, missing.Error())
	}
	spoilt, is := errors.AsType[*SpoiltSecret](why)
	if !is {
		d.warn("open the secrets of a job", why, "job", job.Job)
		return d.decline(ctx, r, job.Job, job.Epoch, noSecrets)
	}
	d.warn("open the secrets of a job", spoilt.Err, "job", job.Job)
	return d.giveUp(ctx, r, job, spoilt.Error())
}

// noSecrets is the reason with which a job is given back whose secrets do not open at present.
const noSecrets = "no_secrets"

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
