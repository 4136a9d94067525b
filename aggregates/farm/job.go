package farm

import (
	"cmp"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about a job is refused.
var (
	ErrNoJob       = fault.New(fault.NotFound, "farm_job_not_found", "There is no such job.")
	ErrJobTaken    = fault.New(fault.Conflict, "farm_job_taken", "Another runner was given this job, or it is over.")
	ErrJobDropped  = fault.New(fault.Conflict, "farm_job_dropped", "Whoever submitted this job may not run jobs any more: it was cancelled.")
	ErrJobNotOwner = fault.New(fault.Denied, "runner_not_owner", "This runner does not have this job, or no longer.")

	ErrJobGoesOn = fault.New(fault.Conflict, "farm_job_active", "This job has not ended yet.")
	ErrJobOfRun  = fault.New(fault.Conflict, "farm_job_of_run", "This job belongs to a run. Try the run again instead.")

	ErrJobNotFinished  = fault.New(fault.Conflict, "farm_job_not_finished", "This job has not finished: its artifacts follow.")
	ErrArtifactsClosed = fault.New(fault.Conflict, "artifacts_closed", "The artifacts of this job are complete, or came too late.")
)

// ForceAfter is how long a runner has, after the grace period, to report that a cancelled
// job has ended.
const ForceAfter = 30 * time.Second

const (
	acceptTimeout     = 20 * time.Second // for a runner to accept a lease
	timeoutGrace      = time.Minute      // for a runner to end a job itself after the job's time limit
	backoff           = 5 * time.Second  // before a failed job is leased again, times the number of failed attempts
	minRequeueTimeout = 24 * time.Hour   // for a runner to take a job again, unless its queue timeout is longer
	maxDeclineBackoff = 5 * time.Minute  // the longest time before a job that was declined often is leased again
)

// A Job runs on one runner of the build farm at a time. Each lease has a new epoch, which
// fences off the runners of earlier leases.
type Job struct {
	spec        jobTerms
	submitter   events.Actor    // without a name
	state       events.JobState // "" before it is submitted
	epoch       int
	attempt     int
	runner      events.ID
	slot        int // of its concurrency key; 0 if it has none
	declined    int // how often in a row
	accepted    bool
	started     bool
	step        int   // the last one that was started; -1 before the first
	stepRunning bool  // that step has not finished
	stepFailed  bool  // a step of this epoch has not succeeded
	unresolved  bool  // it was submitted by ref, and no runner has reported which commit that is
	seq         int64 // number of the runner's last report in this epoch
	timedOut    bool  // it is being cancelled because it exceeded its time limit
	reason      string
	deadline    time.Time      // when it has to have ended; while it is being cancelled, when it is ended by force
	expires     time.Time      // when it expires unless a runner has taken it
	logs        map[int]jobLog // by epoch

	artifacts artifacts
}

// jobTerms are the parts of a job's specification that decisions need. Others, such as scripts and
// environments, may be large, and jobs are cached in memory.
type jobTerms struct {
	name        string
	steps       int // number of steps
	timeouts    events.JobTimeouts
	retry       events.JobRetry
	concurrency *events.JobConcurrency
	artifacts   []jobArtifactTerms
}

type jobArtifactTerms struct {
	name     string
	required bool // the job cannot succeed without it
}

// termsOf returns the terms of a specification.
func termsOf(s events.JobSpec) jobTerms {
	t := jobTerms{name: s.Name, steps: len(s.Steps), timeouts: s.Timeouts, retry: s.Retry, concurrency: s.Concurrency}
	for _, a := range s.Artifacts {
		t.artifacts = append(t.artifacts, jobArtifactTerms{a.Name, a.Required && a.When != "failure"})
	}
	return t
}

// Apply adds one event and who caused it.
func (j *Job) Apply(e events.Event, by events.Actor) {
	switch e := e.(type) {
	case events.JobSubmitted:
		j.submitter = events.Actor{Type: by.Type, ID: by.ID}
		j.spec, j.state, j.expires, j.logs = termsOf(e.Spec), events.JobStateQueued, e.ExpiresAt, map[int]jobLog{}
		j.unresolved = e.Spec.Repo != nil && e.Spec.Repo.Commit == ""
	case events.JobLeased:
		j.state, j.epoch, j.attempt, j.runner, j.slot = events.JobStateLeased, e.Epoch, e.Attempt, e.Runner, e.Slot
		j.accepted, j.started, j.step, j.stepRunning, j.stepFailed, j.seq = false, false, -1, false, false, 0
	case events.JobAccepted:
		j.accepted, j.declined = true, 0
		if j.state == events.JobStateLeased {
			j.deadline = e.Deadline
		}
	case events.JobDeclined:
		j.attempt-- // a declined lease is not an attempt
		j.declined++
	case events.JobRequeued:
		j.state, j.runner, j.slot = events.JobStateQueued, events.ID{}, 0
		if !e.ExpiresAt.IsZero() {
			j.expires = e.ExpiresAt
		}
		j.noteReport(e.Epoch, e.Report)
	case events.JobStarted:
		j.seq, j.started = e.Seq, true
		if j.state == events.JobStateLeased { // a job that is being cancelled keeps its deadline
			j.state, j.deadline = events.JobStateRunning, e.Deadline
		}
	case events.JobCheckedOut:
		j.seq, j.unresolved = e.Seq, false
	case events.JobStepStarted:
		j.seq, j.step, j.stepRunning = e.Seq, e.Step, true
	case events.JobStepFinished:
		j.seq, j.stepRunning, j.stepFailed = e.Seq, false, j.stepFailed || e.Outcome != "succeeded"
	case events.JobFinished:
		j.seq, j.state = e.Seq, e.Outcome
		j.noteLog(e.Epoch, e.Log)
		j.artifacts.expect(e.Artifacts)
	case events.JobCancelRequested:
		j.state, j.deadline, j.timedOut, j.reason = events.JobStateCancelling, e.Deadline, e.TimedOut, e.Reason
	case events.JobCancelled:
		j.endWithoutReport(e.State())
	case events.JobLost:
		j.endWithoutReport(events.JobStateLost)
		j.noteReport(e.Epoch, e.Report)
	case events.JobExpired:
		j.endWithoutReport(events.JobStateExpired)
	case events.JobLogSealed:
		j.logs[e.Epoch] = jobLog{sealed: true}
	case events.JobLeaseExpired: // the event after it says what follows
	default:
		j.applyArtifacts(e)
	}
}

// endWithoutReport ends a job without a report of its runner. Such a job has no artifacts.
func (j *Job) endWithoutReport(state events.JobState) {
	j.state = state
	j.artifacts.expect(0)
}

// Submit submits the job. CheckJob has filled in what the spec left open.
func (j *Job) Submit(e events.JobSubmitted) ([]events.Event, error) {
	if j.state != "" {
		return nil, fault.Field("jobId", "is taken")
	}
	return oneEvent(e)
}

// CanRetry refuses a job that cannot be submitted again: one that has not ended, and one of a run, which only the
// run's own retry can continue.
func (j *Job) CanRetry() error {
	switch {
	case j.state == "":
		return ErrNoJob
	case j.submitter.Type == events.BySystem:
		return ErrJobOfRun
	case !j.state.Final():
		return ErrJobGoesOn
	}
	return nil
}

// State returns the job's state, "" before it is submitted.
func (j *Job) State() events.JobState { return j.state }

// Submitter returns the type and the id of who submitted the job.
func (j *Job) Submitter() events.Actor { return j.submitter }

// Name returns the job's name.
func (j *Job) Name() string { return j.spec.name }

// Slot returns the concurrency key and the slot of it that the job holds. ok is false if it
// holds none.
func (j *Job) Slot() (key string, slot int, ok bool) {
	if !j.state.Held() || j.slot == 0 {
		return "", 0, false
	}
	return j.spec.concurrency.Key, j.slot, true
}

// Concurrency returns the job's concurrency key and limit. ok is false if it has none.
func (j *Job) Concurrency() (key string, limit int, ok bool) {
	if j.spec.concurrency == nil {
		return "", 0, false
	}
	return j.spec.concurrency.Key, j.spec.concurrency.Limit, true
}

// Lease gives the job to a runner. slot is a slot of its concurrency key, 0 if it has none.
func (j *Job) Lease(runner events.ID, name string, slot int, now time.Time) ([]events.Event, error) {
	if j.state != events.JobStateQueued {
		return nil, ErrJobTaken
	}
	e := events.JobLeased{
		Epoch: j.epoch + 1, Attempt: j.attempt + 1, Runner: runner, RunnerName: name, AcceptBy: now.Add(acceptTimeout), Slot: slot,
	}
	e.Key, _, _ = j.Concurrency()
	return oneEvent(e)
}

// Unaccepted returns the lease that a runner holds and has not accepted. ok is false if there is none.
func (j *Job) Unaccepted(runner events.ID) (epoch, attempt int, ok bool) {
	return j.epoch, j.attempt, j.heldBy(runner, j.epoch) && !j.accepted && !j.started
}

// heldBy reports whether a runner holds the lease of an epoch.
func (j *Job) heldBy(runner events.ID, epoch int) bool {
	return j.state.Held() && j.epoch == epoch && j.runner == runner
}

// Accept records that the runner accepts the lease. A repetition returns no event.
func (j *Job) Accept(runner events.ID, epoch int, now time.Time) ([]events.Event, error) {
	switch {
	case !j.heldBy(runner, epoch):
		return nil, ErrJobNotOwner
	case j.accepted || j.started:
		return nil, nil
	}
	return oneEvent(events.JobAccepted{Epoch: epoch, Deadline: j.runDeadline(now)})
}

// runDeadline returns when a job that starts now has to have ended.
func (j *Job) runDeadline(now time.Time) time.Time {
	return now.Add(seconds(j.spec.timeouts.RunSeconds) + timeoutGrace)
}

// NoAnswer is the reason for declining a lease that the runner did not answer.
const NoAnswer = "no_answer"

// Decline gives the job back, as its runner asked or, with the reason [NoAnswer], because
// the runner did not answer. A job that is being cancelled ends instead.
func (j *Job) Decline(runner events.ID, epoch int, reason string, now time.Time) ([]events.Event, error) {
	switch {
	case !j.heldBy(runner, epoch):
		return nil, ErrJobNotOwner
	case j.accepted || j.started:
		return nil, nil
	case j.state == events.JobStateCancelling:
		return oneEvent(events.JobCancelled{Epoch: epoch, Reason: j.reason})
	}
	return []events.Event{
		events.JobDeclined{Epoch: epoch, Runner: runner, Reason: input.CleanName(reason)},
		events.JobRequeued{Epoch: epoch, Reason: "declined", NotBefore: now.Add(declineBackoff(j.declined))},
	}, nil
}

// declineBackoff returns how long a job rests that was declined that many times before: not at
// all at first, then with exponential backoff, so that runners which cannot take it are not
// asked over and over.
func declineBackoff(times int) time.Duration {
	if times == 0 {
		return 0
	}
	return min(maxDeclineBackoff, backoff<<min(times-1, 10))
}

// LoseLease takes the job from a runner that did not renew its lease.
func (j *Job) LoseLease(epoch int, now time.Time) ([]events.Event, error) {
	if !j.state.Held() || j.epoch != epoch {
		return nil, nil
	}
	expired := events.JobLeaseExpired{Epoch: epoch, Runner: j.runner}
	return append([]events.Event{expired}, j.failAttempt("lost", nil, now)...), nil
}

// failAttempt ends or requeues a job whose runner did not finish it. why is "lost", or "infra" if
// something of the runner's own failed, with the runner's report. A job that was accepted
// has used up its queue timeout, so it gets a new one when it is requeued.
func (j *Job) failAttempt(why string, said *events.JobAttemptReport, now time.Time) []events.Event {
	reason := why
	if why == "lost" {
		reason = "lease_expired"
	}
	switch {
	case j.state == events.JobStateCancelling:
		return []events.Event{events.JobCancelled{Epoch: j.epoch, Reason: j.reason, Forced: true, TimedOut: j.timedOut}}
	case j.attempt < j.spec.retry.MaxAttempts && slices.Contains(j.spec.retry.On, why):
		again := events.JobRequeued{Epoch: j.epoch, Reason: reason, NotBefore: now.Add(time.Duration(j.attempt-1) * backoff), Report: said}
		again.ExpiresAt = again.NotBefore.Add(max(minRequeueTimeout, seconds(j.spec.timeouts.QueueSeconds)))
		return []events.Event{again}
	}
	return []events.Event{events.JobLost{Epoch: j.epoch, Reason: reason, Report: said}}
}

// Cancel ends the job, at once if no runner has it. It returns no event if the job has
// ended. grace, in seconds, replaces the job's grace period if it is not nil; for a job
// that is already being cancelled it can only shorten the period.
func (j *Job) Cancel(reason string, grace *int, now time.Time) ([]events.Event, error) {
	if err := input.NoTokens(map[string]string{"reason": reason}); err != nil {
		return nil, err
	}
	switch {
	case j.state == "":
		return nil, ErrNoJob
	case j.state == events.JobStateQueued:
		return oneEvent(events.JobCancelled{Reason: reason})
	case !j.state.Held():
		return nil, nil
	}
	e := events.JobCancelRequested{Reason: reason, Deadline: now.Add(seconds(j.spec.timeouts.CancelGraceSeconds) + ForceAfter)}
	if grace != nil {
		e.Deadline = now.Add(seconds(*grace) + ForceAfter)
	}
	if j.state == events.JobStateCancelling {
		if grace == nil || !e.Deadline.Before(j.deadline) {
			return nil, nil
		}
		e.Reason, e.TimedOut = cmp.Or(reason, j.reason), j.timedOut
	}
	return oneEvent(e)
}

// TimeOut applies the job's time limits. A job that no runner took in time expires. A job
// that runs for too long, or was accepted and never started, is cancelled. A job that is
// being cancelled is ended by force at its deadline, or at once if its runner is silent.
func (j *Job) TimeOut(now time.Time, silent bool) ([]events.Event, error) {
	switch {
	case j.state == events.JobStateQueued && !now.Before(j.expires):
		return oneEvent(events.JobExpired{})
	case (j.state == events.JobStateRunning || j.state == events.JobStateLeased && j.accepted) && !now.Before(j.deadline):
		deadline := now.Add(seconds(j.spec.timeouts.CancelGraceSeconds) + ForceAfter)
		return oneEvent(events.JobCancelRequested{Reason: "run_timeout", Deadline: deadline, TimedOut: true})
	case j.state == events.JobStateCancelling && (silent || !now.Before(j.deadline)):
		return j.failAttempt("lost", nil, now), nil
	}
	return nil, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// Closed reports whether the job has ended and nothing more comes of it: a job that has succeeded
// may still fail while artifacts that it requires are expected.
func (j *Job) Closed() bool { return j.state.Final() && j.artifacts.closed }

// Epoch returns the number of the job's last lease, 0 if there was none.
func (j *Job) Epoch() int { return j.epoch }
