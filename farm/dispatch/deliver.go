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
	"svc/farm/jobinput"
	"svc/farm/secrets"
	"svc/farm/wire"
	"svc/fault"
)

// undelivered returns the jobs leased to runners that have neither accepted nor started them, by
// runner. If a runner no longer knows a job that it has started, the lease expires.
func (d *Dispatcher) undelivered(ctx context.Context, workspace events.ID, runners []events.ID) (map[events.ID][]heldJob, error) {
	rows, _ := d.DB.Query(ctx, `
		select j.* from unnest($2::uuid[]) as k (runner_id) cross join lateral (
			select runner_id, job_id, epoch from jobs j where j.workspace_id = $1 and j.runner_id = k.runner_id
			and state in ('leased', 'cancelling') and not accepted and started_at is null offset 0) j`, workspace, runners)
	by := map[events.ID][]heldJob{}
	var runner events.ID
	var k heldJob
	_, err := pgx.ForEachRow(rows, []any{&runner, &k.job, &k.epoch}, func() error { by[runner] = append(by[runner], k); return nil })
	return by, fault.Wrap(err, "look up jobs leased to runners of %s", workspace)
}

// without returns the ids of the jobs in list that are not in known in the same epoch.
func without(list, known []heldJob) (ids []events.ID) {
	for _, k := range list {
		if !slices.Contains(known, k) {
			ids = append(ids, k.job)
		}
	}
	return ids
}

// deliver sends the runner its pending jobs, as far as its outbox has room; the writer wakes the
// farm when there is room again. A job that fails is tried again too, until the time to accept it
// has passed. Before the welcome nothing is sent: the runner takes the first message for it.
func (d *Dispatcher) deliver(ctx context.Context, c *connection) {
	if !c.presence.isGreeted() {
		return // handleHello wakes the farm
	}
	for _, id := range c.slots.pendingJobs() {
		handled, err := d.deliverJob(ctx, c, id)
		switch {
		case err != nil:
			d.warn("deliver a job", err, "runner", c.runner.ID, "job", id)
		case !handled:
			return
		default:
			c.slots.removePending(id)
		}
	}
}

// deliverJob sends the runner a job, and reports whether it was dealt with; false means that the
// outbox has no room. A job that is no longer leased to the runner needs no message. One that is being
// cancelled is declined instead, and one that cannot be sent is cancelled.
func (d *Dispatcher) deliverJob(ctx context.Context, c *connection, id events.ID) (handled bool, err error) {
	job, err := d.Commands.Delivery(ctx, c.runner.Workspace, c.runner.ID, id)
	switch {
	case err != nil || job == nil:
		return err == nil, err
	case job.State == events.JobStateCancelling:
		return true, d.decline(ctx, c.runner, id, job.Epoch, "cancelled")
	case !job.Suits: // its labels have just changed, or somebody has changed the rows by which it was chosen
		return true, d.decline(ctx, c.runner, id, job.Epoch, "unsupported")
	}
	if job.Barred != "" { // its scope has changed since the job was submitted
		return true, d.cancelUnrunnable(ctx, c.runner, job, "the scope of the secret "+job.Barred+" does not include this job")
	}
	var secrets map[string]string
	if len(job.Spec.Secrets) > 0 {
		if secrets, err = d.Reveal(ctx, c.runner.Workspace, job.Spec.Secrets); err != nil {
			return true, d.handleSecretError(ctx, c.runner, job, err)
		}
	}
	source, err := d.source(ctx, c.runner.Workspace, job)
	if err != nil {
		return true, d.handleSourceError(ctx, c.runner, job, err)
	}
	assign := d.assignment(job, secrets, source)
	if sum := job.Spec.InputSHA256; sum != "" {
		assign.Input, err = d.inputs().Read(ctx, c.runner.Workspace, id, sum)
		switch {
		case errors.Is(err, jobinput.ErrMissing):
			return true, d.cancelUnrunnable(ctx, c.runner, job, "its input is missing, or was changed")
		case err != nil:
			return false, err
		}
	}
	frame, err := wire.EncodeFor(assign, d.Now(), id.String(), job.Epoch, 0)
	switch {
	case err != nil:
		return false, err
	case len(frame) > wire.MaxAssign: // a runner would refuse the frame
		return true, d.cancelUnrunnable(ctx, c.runner, job, "its secrets and its input are too large together")
	}
	return c.assign(job, frame), nil
}

// inputs returns the files that jobs of runs receive.
func (d *Dispatcher) inputs() jobinput.Inputs { return jobinput.Inputs{DB: d.DB, Now: d.Now} }

// assign queues an assign message, and reports whether there was room for it.
func (c *connection) assign(job *commands.Delivery, frame []byte) bool {
	c.slots.assign(job.Job, job.Epoch) // before the send: the runner may answer at once
	if c.out.putAssign(frame) {
		return true
	}
	c.slots.forget(job.Job, job.Epoch)
	return false
}

// handleSecretError handles a job whose secrets cannot be revealed. If a secret is missing or
// unreadable the job is cancelled. Otherwise it returns to the queue, with a longer backoff each
// time.
func (d *Dispatcher) handleSecretError(ctx context.Context, r Runner, job *commands.Delivery, why error) error {
	missing, is := errors.AsType[*secrets.MissingError](why)
	if is {
		return d.cancelUnrunnable(ctx, r, job, missing.Error())
	}
	unreadable, is := errors.AsType[*secrets.UnreadableError](why)
	if !is {
		d.warn("reveal the secrets of a job", why, "job", job.Job)
		return d.decline(ctx, r, job.Job, job.Epoch, reasonNoSecrets)
	}
	d.warn("reveal the secrets of a job", unreadable.Err, "job", job.Job)
	return d.cancelUnrunnable(ctx, r, job, unreadable.Error())
}

// reasonNoSecrets is the decline reason of a job whose secrets, or the credential of its repository, cannot be
// revealed at present.
const reasonNoSecrets = "no_secrets"

// An UnclonableError says why a job can never clone its repository. Err has details for operators, and may be nil.
type UnclonableError struct {
	Reason string
	Err    error
}

func (e *UnclonableError) Error() string { return e.Reason }
func (e *UnclonableError) Unwrap() error { return e.Err }

// source returns what the job checks out, or nil.
func (d *Dispatcher) source(ctx context.Context, workspace events.ID, job *commands.Delivery) (*wire.Source, error) {
	repo := job.Spec.Repo
	if repo == nil {
		return nil, nil
	}
	url, err := d.CloneURL(ctx, workspace, repo.ID, repo.Name)
	if err != nil || url == "" {
		return nil, err
	}
	return &wire.Source{URL: url, Commit: repo.Commit, Ref: repo.Ref}, nil
}

// handleSourceError cancels a job that can never clone its repository. Otherwise the job returns to the queue, as in
// handleSecretError.
func (d *Dispatcher) handleSourceError(ctx context.Context, r Runner, job *commands.Delivery, why error) error {
	d.warn("look up the repository of a job", why, "job", job.Job)
	if unclonable, is := errors.AsType[*UnclonableError](why); is {
		return d.cancelUnrunnable(ctx, r, job, unclonable.Reason)
	}
	return d.decline(ctx, r, job.Job, job.Epoch, reasonNoSecrets)
}

// cancelUnrunnable cancels a job that no runner can run.
func (d *Dispatcher) cancelUnrunnable(ctx context.Context, r Runner, job *commands.Delivery, why string) error {
	if _, err := d.Commands.CancelJob(ctx, commands.CancelJob{Meta: commands.SystemMeta(r.Workspace), Job: job.Job, Reason: why}); err != nil {
		return fmt.Errorf("cancel job %s: %w", job.Job, err)
	}
	return d.decline(ctx, r, job.Job, job.Epoch, "other")
}

// decline returns a job to the queue for a runner that never started it.
func (d *Dispatcher) decline(ctx context.Context, r Runner, job events.ID, epoch int, reason string) error {
	_, err := d.Commands.DeclineJob(ctx, commands.DeclineJob{
		Meta: commands.SystemMeta(r.Workspace), Job: job, Runner: r.ID, Epoch: epoch, Reason: reason,
	})
	return fault.Wrap(err, "return job %s to the queue", job)
}

// assignment returns the assign message of a job.
func (d *Dispatcher) assignment(job *commands.Delivery, secrets map[string]string, source *wire.Source) wire.Assign {
	s := job.Spec
	a := wire.Assign{
		Name: s.Name, Attempt: job.Attempt, Secrets: secrets, Source: source,
		Sandbox:     wire.Sandbox{Kind: s.Sandbox.Kind, Network: s.Sandbox.Network, MemoryMiB: s.Sandbox.MemoryMiB, CPUs: s.Sandbox.CPUs},
		IdleSeconds: s.Timeouts.IdleSeconds, Collect: s.Collect,
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
	}
	return a
}
