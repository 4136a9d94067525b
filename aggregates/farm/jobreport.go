package farm

import (
	"math"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// A JobReport is a report of a runner about a job that it has.
type JobReport struct {
	Epoch int
	Seq   int64
	Event events.Event // JobStarted, JobCheckedOut, JobStepStarted, JobStepFinished or JobFinished; nil for reports that are no event

	MissingArtifacts []string // for JobFinished: artifacts of the spec of which there is no file
}

// The outcomes that a runner may report for a step and for a job.
var (
	stepOutcomes = []string{"succeeded", "failed", "cancelled", "timed_out"}
	jobOutcomes  = append(slices.Clone(stepOutcomes), "infra")
)

// clockSkew is how far a runner's clock may be off. Beyond that, our time is recorded
// instead.
const clockSkew = 48 * time.Hour

// ClampRunnerTime returns the time to record for a time that a runner reported.
func ClampRunnerTime(t, now time.Time) time.Time {
	if t.Sub(now).Abs() > clockSkew {
		t = now
	}
	return t.UTC().Truncate(time.Millisecond)
}

const maxLeftOutPath = 200

// maxNumber is the largest number that is recorded: every JSON parser can represent it.
const maxNumber = 1<<53 - 1

// ClampRunnerNumber returns the number to record for one that a runner reported.
func ClampRunnerNumber(n int64) int64 { return min(max(n, 0), maxNumber) }

// exitCode limits a reported exit code to 32 bits.
func exitCode(code *int) *int {
	if code == nil {
		return nil
	}
	return new(min(max(*code, math.MinInt32), math.MaxInt32))
}

// Report records a report of the runner. Reports that were recorded before return no event.
func (j *Job) Report(runner events.ID, r JobReport, now time.Time) ([]events.Event, error) {
	switch {
	case j.epoch == r.Epoch && j.runner == runner && r.Seq <= j.seq:
		return nil, nil
	case !j.heldBy(runner, r.Epoch):
		return nil, ErrJobNotOwner
	}
	switch e := r.Event.(type) {
	case events.JobStarted:
		if j.started {
			return nil, nil
		}
		e.Epoch, e.Seq, e.Deadline = r.Epoch, r.Seq, j.runDeadline(now)
		return oneEvent(e)
	case events.JobCheckedOut:
		e.Epoch, e.Seq = r.Epoch, r.Seq
		return j.checkOut(e)
	case events.JobStepStarted:
		e.Epoch, e.Seq, e.At = r.Epoch, r.Seq, ClampRunnerTime(e.At, now)
		return j.beginStep(e)
	case events.JobStepFinished:
		e.Epoch, e.Seq, e.At, e.ExitCode = r.Epoch, r.Seq, ClampRunnerTime(e.At, now), exitCode(e.ExitCode)
		return j.endStep(e)
	case events.JobFinished:
		e.Epoch, e.Seq = r.Epoch, r.Seq
		return j.finish(e, r.MissingArtifacts, now)
	}
	return nil, nil
}

// checkOut records which commit the job builds, once, and only if whoever submitted it has named none.
func (j *Job) checkOut(e events.JobCheckedOut) ([]events.Event, error) {
	if err := commitID.Check("commit", e.Commit); err != nil {
		return nil, err
	}
	switch {
	case !j.started:
		return nil, fault.Field("commit", "must be that of a job that has started")
	case !j.unresolved:
		return nil, nil
	}
	return oneEvent(e)
}

// beginStep records the start of a step. Each step can start once, in order, which bounds
// how many events a runner can cause in an epoch.
func (j *Job) beginStep(e events.JobStepStarted) ([]events.Event, error) {
	if !j.started || e.Step <= j.step || e.Step >= j.spec.steps {
		return nil, fault.Field("step", "must be a step of a job that has started, after those that have begun")
	}
	return oneEvent(e)
}

func (j *Job) endStep(e events.JobStepFinished) ([]events.Event, error) {
	if !j.stepRunning || e.Step != j.step {
		return nil, fault.Field("step", "must be the step that goes on")
	}
	if !slices.Contains(stepOutcomes, e.Outcome) {
		return nil, fault.Field("outcome", "must be one of succeeded, failed, cancelled, timed_out")
	}
	return oneEvent(e)
}

// finish ends the job as its runner reported.
func (j *Job) finish(e events.JobFinished, missing []string, now time.Time) ([]events.Event, error) {
	if !slices.Contains(jobOutcomes, e.Reported) {
		return nil, fault.Field("outcome", "must be one of succeeded, failed, cancelled, timed_out, infra")
	}
	if e.Reported == "succeeded" && !j.started {
		return nil, fault.Field("outcome", "must not be succeeded before the job has started")
	}
	for _, text := range []*string{&e.Reason, &e.Signal, &e.SignalReason, &e.Log.SHA256} {
		*text = input.CleanName(*text) // it is stored
	}
	for _, t := range []*time.Time{&e.StartedAt, &e.FinishedAt} {
		if !t.IsZero() {
			*t = ClampRunnerTime(*t, now)
		}
	}
	e.LeftOut = slices.Clone(e.LeftOut)
	for i, l := range e.LeftOut {
		e.LeftOut[i].Path = input.Truncate(input.MaskTokens(input.CleanText(l.Path)), maxLeftOutPath)
		e.LeftOut[i].Reason = input.CleanName(l.Reason)
	}
	e.LeftOutCount = int(ClampRunnerNumber(int64(e.LeftOutCount)))
	for _, n := range []*int64{&e.CPUMs, &e.MaxRSSBytes, &e.Log.Bytes, &e.Log.Chunks} {
		*n = ClampRunnerNumber(*n)
	}
	e.ExitCode = exitCode(e.ExitCode)
	if len(j.spec.artifacts) == 0 {
		e.Artifacts = 0 // no upload would be accepted, so none is awaited
	}
	e.Artifacts = max(0, e.Artifacts)
	if e.Artifacts == 0 {
		missing = append(missing, j.required()...) // even if the runner does not report them as missing
	}
	switch {
	case j.state == events.JobStateCancelling && j.timedOut:
		e.Outcome = events.JobStateTimedOut
	case j.state == events.JobStateCancelling:
		e.Outcome = events.JobStateCancelled
	case e.Reported == "infra":
		return j.failAttempt("infra", &events.JobAttemptReport{Reason: e.Reason, Log: e.Log}, now), nil
	case e.Reported == "succeeded" && (j.stepFailed || e.ExitCode != nil && *e.ExitCode != 0):
		e.Outcome, e.Reason = events.JobStateFailed, events.ContradictoryReport
	case e.Reported == "succeeded" && len(missing) > 0:
		e.Outcome, e.Reason = events.JobStateFailed, events.ArtifactMissing
	case e.Reported == "succeeded":
		e.Outcome = events.JobStateSucceeded
	case e.Reported == "timed_out":
		e.Outcome = events.JobStateTimedOut
	default:
		e.Outcome = events.JobStateFailed // includes "cancelled" if nobody asked for that
	}
	return oneEvent(e)
}
