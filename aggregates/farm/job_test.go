package farm

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// jobOf returns the spec of the tests' job: two steps, two attempts, a grace period of ten seconds.
func jobOf(change func(*events.JobSpec)) events.JobSubmitted {
	s := events.JobSpec{
		Name: "tests", Steps: []events.JobStep{{Run: "true"}, {Run: "false"}},
		Retry: events.JobRetry{MaxAttempts: 2}, Timeouts: events.JobTimeouts{RunSeconds: 100, CancelGraceSeconds: 10},
	}
	if change != nil {
		change(&s)
	}
	s, err := CheckJob(s)
	if err != nil {
		panic(err)
	}
	return events.JobSubmitted{Spec: s, ExpiresAt: noon.Add(time.Hour)}
}

var (
	machineA, machineB = id(50), id(51)

	runLimitOfNoon = noon.Add(100*time.Second + timeoutGrace)
	cancelLimit    = noon.Add(10*time.Second + ForceAfter)

	jobSubmitted = jobOf(nil)
	jobLeased    = events.JobLeased{Epoch: 1, Attempt: 1, Runner: machineA, RunnerName: "builder", AcceptBy: noon.Add(acceptTimeout)}
	jobAccepted  = events.JobAccepted{Epoch: 1, Deadline: runLimitOfNoon}
	jobStarted   = events.JobStarted{Epoch: 1, Seq: 1, Deadline: runLimitOfNoon}
	stepBegun    = events.JobStepStarted{Epoch: 1, Seq: 2, At: noon}
	cancelling   = events.JobCancelRequested{Reason: "superseded", Deadline: cancelLimit}

	queuedJob   = []events.Event{jobSubmitted}
	leasedJob   = []events.Event{jobSubmitted, jobLeased}
	acceptedJob = append(leasedJob[:2:2], jobAccepted)
	runningJob  = append(acceptedJob[:3:3], jobStarted)
	endingJob   = append(runningJob[:4:4], cancelling)
	doneJob     = append(runningJob[:4:4], events.JobFinished{Epoch: 1, Seq: 9, Outcome: events.JobStateSucceeded, Reported: "succeeded"})
	secondLease = append(runningJob[:4:4], events.JobLeaseExpired{Epoch: 1, Runner: machineA},
		events.JobRequeued{Epoch: 1, Reason: "lease_expired", NotBefore: noon},
		events.JobLeased{Epoch: 2, Attempt: 2, Runner: machineB, RunnerName: "other", AcceptBy: noon})
)

func reports(epoch int, seq int64, e events.Event) func(*Job) ([]events.Event, error) {
	return func(j *Job) ([]events.Event, error) {
		return j.Report(machineA, JobReport{Epoch: epoch, Seq: seq, Event: e}, noon)
	}
}

func finished(outcome events.JobState, reported, reason string) []events.Event {
	return []events.Event{events.JobFinished{Epoch: 1, Seq: 9, Outcome: outcome, Reported: reported, Reason: reason}}
}

// Runners are told limits of the protocol that these rules hold them to.
func TestLimitsAreThoseOfTheProtocol(t *testing.T) {
	require.Equal(t, wire.AcceptTimeout, acceptTimeout)
	require.EqualValues(t, wire.MaxNumber, maxNumber)
}

func TestJobIsGivenToOneRunner(t *testing.T) {
	lease := func(j *Job) ([]events.Event, error) { return j.Lease(machineA, "builder", 0, noon) }
	accept := func(runner events.ID, epoch int) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.Accept(runner, epoch, noon) }
	}
	decline := func(epoch int, reason string) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.Decline(machineA, epoch, reason, noon) }
	}
	declined := func(reason string, rest time.Duration) []events.Event {
		return []events.Event{
			events.JobDeclined{Epoch: 1, Runner: machineA, Reason: reason},
			events.JobRequeued{Epoch: 1, Reason: "declined", NotBefore: noon.Add(rest)},
		}
	}
	again := append(queuedJob[:1:1], append([]events.Event{jobLeased}, declined("busy", 0)...)...)
	check(t, []spec[Job]{
		{name: "submitted", when: func(j *Job) ([]events.Event, error) { return j.Submit(jobSubmitted) }, then: queuedJob},
		{name: "submitted twice", given: queuedJob, when: func(j *Job) ([]events.Event, error) { return j.Submit(jobSubmitted) },
			err: fault.Field("jobId", "is taken")},
		{name: "leased", given: queuedJob, when: lease, then: []events.Event{jobLeased}},
		{name: "leased to another", given: leasedJob, when: lease, err: ErrJobTaken},
		{name: "leased when over", given: doneJob, when: lease, err: ErrJobTaken},
		{name: "leased before there is one", when: lease, err: ErrJobTaken},
		{name: "accepted", given: leasedJob, when: accept(machineA, 1), then: []events.Event{jobAccepted}},
		{name: "accepted twice", given: acceptedJob, when: accept(machineA, 1)},
		{name: "accepted by another", given: leasedJob, when: accept(machineB, 1), err: ErrJobNotOwner},
		{name: "accepted in an older epoch", given: secondLease, when: accept(machineA, 1), err: ErrJobNotOwner},
		{name: "declined", given: leasedJob, when: decline(1, "busy"), then: declined("busy", 0)},
		{name: "no answer", given: leasedJob, when: decline(1, "no_answer"), then: declined("no_answer", 0)},
		{name: "a reason with a NUL", given: leasedJob, when: decline(1, "a\x00b"), then: declined("a b", 0)},
		{name: "declined once more", given: append(again[:4:4], jobLeased), when: decline(1, "busy"), then: declined("busy", backoff)},
		{name: "declined when accepted", given: acceptedJob, when: decline(1, "busy")},
		{name: "declined in another epoch", given: leasedJob, when: decline(2, "busy"), err: ErrJobNotOwner},
		{name: "declined while it is cancelled", given: append(leasedJob[:2:2], cancelling), when: decline(1, "busy"),
			then: []events.Event{events.JobCancelled{Epoch: 1, Reason: "superseded"}}},
	})
	require.Equal(t, maxDeclineBackoff, declineBackoff(1000), "a rest has an end")
	j := folded[Job](again)
	require.Zero(t, j.attempt, "what was declined cost no attempt")
}

func TestJobReports(t *testing.T) {
	step := func(seq int64, n int) events.JobStepFinished {
		return events.JobStepFinished{Epoch: 1, Seq: seq, Step: n, Outcome: "succeeded", At: noon}
	}
	begun := append(runningJob[:4:4], stepBegun)
	commitA, commitB := strings.Repeat("a", 40), strings.Repeat("b", 64)
	byRef := append([]events.Event{jobOf(func(s *events.JobSpec) { s.Repo = &events.JobRepo{Ref: "refs/heads/main"} })}, runningJob[1:]...)
	checkedOut := events.JobCheckedOut{Epoch: 1, Seq: 2, Commit: commitA}
	byRefAgain := append(byRef[:4:4], append([]events.Event{checkedOut}, append(secondLease[4:], events.JobStarted{Epoch: 2, Seq: 1})...)...)
	wrongStep := fault.Field("step", "must be a step of a job that has started, after those that have begun")
	check(t, []spec[Job]{
		{name: "started", given: acceptedJob, when: reports(1, 1, events.JobStarted{}), then: []events.Event{jobStarted}},
		{name: "started, the word of which was lost", given: leasedJob, when: reports(1, 1, events.JobStarted{}),
			then: []events.Event{jobStarted}},
		{name: "a repetition", given: runningJob, when: reports(1, 1, events.JobStarted{})},
		{name: "started once more", given: runningJob, when: reports(1, 2, events.JobStarted{})},
		{name: "an older epoch", given: secondLease, when: reports(1, 9, events.JobFinished{Reported: "succeeded"}), err: ErrJobNotOwner},
		{name: "a later epoch", given: runningJob, when: reports(2, 9, events.JobFinished{Reported: "succeeded"}), err: ErrJobNotOwner},
		{name: "when over", given: doneJob, when: reports(1, 10, events.JobFinished{Reported: "failed"}), err: ErrJobNotOwner},
		{name: "the end again", given: doneJob, when: reports(1, 9, events.JobFinished{Reported: "failed"})},
		{name: "a step", given: runningJob, when: reports(1, 2, events.JobStepStarted{At: noon}), then: []events.Event{stepBegun}},
		{name: "a step before the start", given: acceptedJob, when: reports(1, 2, events.JobStepStarted{At: noon}), err: wrongStep},
		{name: "a step twice", given: begun, when: reports(1, 3, events.JobStepStarted{At: noon}), err: wrongStep},
		{name: "a step that there is not", given: runningJob, when: reports(1, 2, events.JobStepStarted{Step: 2}), err: wrongStep},
		{name: "a step below", given: runningJob, when: reports(1, 2, events.JobStepStarted{Step: -1}), err: wrongStep},
		{name: "the end of a step", given: begun, when: reports(1, 3, events.JobStepFinished{Outcome: "succeeded", At: noon}),
			then: []events.Event{step(3, 0)}},
		{name: "by a clock that is wrong", given: begun,
			when: reports(1, 3, events.JobStepFinished{Outcome: "succeeded", At: noon.AddDate(7000, 0, 0)}), then: []events.Event{step(3, 0)}},
		{name: "by a code of no system", given: begun,
			when: reports(1, 3, events.JobStepFinished{Outcome: "failed", ExitCode: new(math.MaxInt), At: noon}),
			then: []events.Event{events.JobStepFinished{Epoch: 1, Seq: 3, Outcome: "failed", ExitCode: new(math.MaxInt32), At: noon}}},
		{name: "the end of a step that did not begin", given: begun, when: reports(1, 3, step(3, 1)),
			err: fault.Field("step", "must be the step that goes on")},
		{name: "the end of a step twice", given: append(begun[:5:5], step(3, 0)), when: reports(1, 4, step(4, 0)),
			err: fault.Field("step", "must be the step that goes on")},
		{name: "an end of no kind", given: begun, when: reports(1, 3, events.JobStepFinished{Outcome: "exploded"}),
			err: fault.Field("outcome", "must be one of succeeded, failed, cancelled, timed_out")},
		{name: "the commit", given: byRef, when: reports(1, 2, events.JobCheckedOut{Commit: commitA}), then: []events.Event{checkedOut}},
		{name: "a commit twice", given: append(byRef[:4:4], checkedOut), when: reports(1, 3, events.JobCheckedOut{Commit: commitB})},
		{name: "a commit of the next attempt", given: byRefAgain,
			when: func(j *Job) ([]events.Event, error) {
				return j.Report(machineB, JobReport{Epoch: 2, Seq: 2, Event: events.JobCheckedOut{Commit: commitB}}, noon)
			}},
		{name: "a commit by a former runner", given: byRefAgain, when: reports(1, 3, events.JobCheckedOut{Commit: commitA}),
			err: ErrJobNotOwner},
		{name: "a commit of a job that names one", given: append([]events.Event{jobOf(func(s *events.JobSpec) {
			s.Repo = &events.JobRepo{Commit: commitB, Ref: "refs/heads/main"}
		})}, runningJob[1:]...), when: reports(1, 2, events.JobCheckedOut{Commit: commitA})},
		{name: "a commit without a repository", given: runningJob, when: reports(1, 2, events.JobCheckedOut{Commit: commitA})},
		{name: "a commit before the start", given: byRef[:3], when: reports(1, 2, events.JobCheckedOut{Commit: commitA}),
			err: fault.Field("commit", "must be that of a job that has started")},
		{name: "part of a commit", given: byRef, when: reports(1, 2, events.JobCheckedOut{Commit: commitA[:7]}),
			err: fault.Field("commit", "must have 40 or 64 hexadecimal digits")},
		{name: "what is no event", given: runningJob, when: reports(1, 2, nil)},
	})
}

func TestJobEndsByTheWordOfItsRunner(t *testing.T) {
	end := func(word string, missing ...string) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) {
			return j.Report(machineA, JobReport{Epoch: 1, Seq: 9, Event: events.JobFinished{Reported: word}, MissingArtifacts: missing}, noon)
		}
	}
	timedOut := append(runningJob[:4:4], events.JobCancelRequested{Reason: "run_timeout", Deadline: cancelLimit, TimedOut: true})
	once := append([]events.Event{jobOf(func(s *events.JobSpec) { s.Retry.MaxAttempts = 1 })}, runningJob[1:]...)
	never := append([]events.Event{jobOf(func(s *events.JobSpec) { s.Retry.On = []string{"lost"} })}, runningJob[1:]...)
	check(t, []spec[Job]{
		{name: "well", given: runningJob, when: end("succeeded"), then: finished(events.JobStateSucceeded, "succeeded", "")},
		{name: "without having begun", given: acceptedJob, when: end("failed"), then: finished(events.JobStateFailed, "failed", "")},
		{name: "well, without having begun", given: acceptedJob, when: end("succeeded"),
			err: fault.Field("outcome", "must not be succeeded before the job has started")},
		{name: "well, without having begun again", given: secondLease, when: func(j *Job) ([]events.Event, error) {
			return j.Report(machineB, JobReport{Epoch: 2, Seq: 1, Event: events.JobFinished{Reported: "succeeded"}}, noon)
		}, err: fault.Field("outcome", "must not be succeeded before the job has started")},
		{name: "without an artifact", given: runningJob, when: end("succeeded", "dist"),
			then: finished(events.JobStateFailed, "succeeded", "artifact_missing")},
		{name: "well, with a step that failed", given: append(runningJob[:4:4], events.JobStepStarted{Epoch: 1, Seq: 2},
			events.JobStepFinished{Epoch: 1, Seq: 3, Outcome: "timed_out"}, events.JobStepStarted{Epoch: 1, Seq: 4, Step: 1},
			events.JobStepFinished{Epoch: 1, Seq: 5, Step: 1, Outcome: "succeeded"}), when: end("succeeded"),
			then: finished(events.JobStateFailed, "succeeded", "contradictory_report")},
		{name: "well, in the next attempt", given: append(runningJob[:4:4], events.JobStepStarted{Epoch: 1, Seq: 2},
			events.JobStepFinished{Epoch: 1, Seq: 3, Outcome: "failed"}, events.JobRequeued{Epoch: 1},
			events.JobLeased{Epoch: 2, Attempt: 2, Runner: machineA}, events.JobStarted{Epoch: 2, Seq: 1}),
			when: func(j *Job) ([]events.Event, error) {
				return j.Report(machineA, JobReport{Epoch: 2, Seq: 9, Event: events.JobFinished{Reported: "succeeded"}}, noon)
			}, then: []events.Event{events.JobFinished{Epoch: 2, Seq: 9, Outcome: events.JobStateSucceeded, Reported: "succeeded"}}},
		{name: "well, with another exit code", given: runningJob, when: func(j *Job) ([]events.Event, error) {
			return j.Report(machineA, JobReport{Epoch: 1, Seq: 9, Event: events.JobFinished{Reported: "succeeded", ExitCode: new(5)}}, noon)
		}, then: []events.Event{events.JobFinished{Epoch: 1, Seq: 9, Outcome: events.JobStateFailed, Reported: "succeeded",
			Reason: "contradictory_report", ExitCode: new(5)}}},
		{name: "badly", given: runningJob, when: end("failed", "dist"), then: finished(events.JobStateFailed, "failed", "")},
		{name: "too late", given: runningJob, when: end("timed_out"), then: finished(events.JobStateTimedOut, "timed_out", "")},
		{name: "cancelled by nobody", given: runningJob, when: end("cancelled"), then: finished(events.JobStateFailed, "cancelled", "")},
		{name: "cancelled", given: endingJob, when: end("cancelled"), then: finished(events.JobStateCancelled, "cancelled", "")},
		{name: "well, but cancelled", given: endingJob, when: end("succeeded"), then: finished(events.JobStateCancelled, "succeeded", "")},
		{name: "infra, but cancelled", given: endingJob, when: end("infra"), then: finished(events.JobStateCancelled, "infra", "")},
		{name: "cancelled for its time", given: timedOut, when: end("cancelled"), then: finished(events.JobStateTimedOut, "cancelled", "")},
		{name: "infra", given: runningJob, when: end("infra"),
			then: []events.Event{events.JobRequeued{Epoch: 1, Reason: "infra", NotBefore: noon, ExpiresAt: noon.Add(minRequeueTimeout),
				Report: &events.JobAttemptReport{}}}},
		{name: "infra, for the last time", given: once, when: end("infra"),
			then: []events.Event{events.JobLost{Epoch: 1, Reason: "infra", Report: &events.JobAttemptReport{}}}},
		{name: "infra, which is not tried again", given: never, when: end("infra"),
			then: []events.Event{events.JobLost{Epoch: 1, Reason: "infra", Report: &events.JobAttemptReport{}}}},
		{name: "by a word that there is not", given: runningJob, when: end("exploded"),
			err: fault.Field("outcome", "must be one of succeeded, failed, cancelled, timed_out, infra")},
	})
	sum := events.JobLogSummary{Bytes: 4, Chunks: 1, SHA256: "aa", Truncated: true}
	broken := func(j *Job) ([]events.Event, error) {
		return j.Report(machineA,
			JobReport{Epoch: 1, Seq: 9, Event: events.JobFinished{Reported: "infra", Reason: "sandbox_failed\x00", Log: sum}}, noon)
	}
	said := &events.JobAttemptReport{Reason: "sandbox_failed", Log: sum}
	check(t, []spec[Job]{
		{name: "what failed", given: runningJob, when: broken,
			then: []events.Event{events.JobRequeued{Epoch: 1, Reason: "infra", NotBefore: noon, ExpiresAt: noon.Add(minRequeueTimeout),
				Report: said}}},
		{name: "what failed last", given: once, when: broken, then: []events.Event{events.JobLost{Epoch: 1, Reason: "infra", Report: said}}},
	})
	list, err := folded[Job](runningJob).Report(machineA, JobReport{Epoch: 1, Seq: 9, Event: events.JobFinished{
		Reported: "failed", Reason: strings.Repeat("x", 200) + "\x00", Signal: "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E",
		LeftOut:      []events.JobLeftOut{{Path: "a\nb" + strings.Repeat("x", 300), Reason: strings.Repeat("r", 200)}},
		LeftOutCount: -1, CPUMs: -1, MaxRSSBytes: -1, Artifacts: -1, StartedAt: noon.AddDate(-50, 0, 0), Log: events.JobLogSummary{Bytes: -1},
	}}, noon)
	require.NoError(t, err)
	require.Equal(t, []events.Event{events.JobFinished{
		Epoch: 1, Seq: 9, Outcome: events.JobStateFailed, Reported: "failed", Reason: strings.Repeat("x", 100), Signal: "tok_svc_[redacted]",
		StartedAt: noon, LeftOut: []events.JobLeftOut{{Path: "a b" + strings.Repeat("x", 197), Reason: strings.Repeat("r", 100)}},
	}}, list, "what a runner says is bounded")
	list, err = folded[Job](runningJob).Report(machineA, JobReport{Epoch: 1, Seq: 9, Event: events.JobFinished{
		Reported: "failed", ExitCode: new(math.MinInt), CPUMs: math.MaxInt64, MaxRSSBytes: math.MaxInt64, FinishedAt: noon.AddDate(7000, 0, 0),
		Log: events.JobLogSummary{Bytes: math.MaxInt64, Chunks: math.MaxInt64},
	}}, noon)
	require.NoError(t, err)
	const most = 1<<53 - 1
	require.Equal(t, []events.Event{events.JobFinished{
		Epoch: 1, Seq: 9, Outcome: events.JobStateFailed, Reported: "failed", ExitCode: new(math.MinInt32),
		CPUMs: most, MaxRSSBytes: most, FinishedAt: noon, Log: events.JobLogSummary{Bytes: most, Chunks: most},
	}}, list, "and its numbers are")
}

func TestJobIsTakenFromASilentRunner(t *testing.T) {
	lose := func(epoch int) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.LoseLease(epoch, noon) }
	}
	expired := events.JobLeaseExpired{Epoch: 1, Runner: machineA}
	check(t, []spec[Job]{
		{name: "once", given: runningJob, when: lose(1), then: []events.Event{
			expired, events.JobRequeued{Epoch: 1, Reason: "lease_expired", NotBefore: noon, ExpiresAt: noon.Add(minRequeueTimeout)}}},
		{name: "for the last time", given: secondLease, when: lose(2), then: []events.Event{
			events.JobLeaseExpired{Epoch: 2, Runner: machineB}, events.JobLost{Epoch: 2, Reason: "lease_expired"}}},
		{name: "while it is cancelled", given: endingJob, when: lose(1), then: []events.Event{
			expired, events.JobCancelled{Epoch: 1, Reason: "superseded", Forced: true}}},
		{name: "in an older epoch", given: secondLease, when: lose(1)},
		{name: "when over", given: doneJob, when: lose(1)},
		{name: "when it waits", given: queuedJob, when: lose(0)},
	})
}

func TestJobIsCancelled(t *testing.T) {
	cancel := func(j *Job) ([]events.Event, error) { return j.Cancel("superseded", nil, noon) }
	sooner := func(seconds int, after time.Duration, reason string) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.Cancel(reason, &seconds, noon.Add(after)) }
	}
	kill := func(after time.Duration, reason string) []events.Event {
		return []events.Event{events.JobCancelRequested{Reason: reason, Deadline: noon.Add(after + ForceAfter)}}
	}
	timedOut := append(runningJob[:4:4], events.JobCancelRequested{Reason: "run_timeout", Deadline: cancelLimit, TimedOut: true})
	check(t, []spec[Job]{
		{name: "while it waits", given: queuedJob, when: cancel, then: []events.Event{events.JobCancelled{Reason: "superseded"}}},
		{name: "before it is accepted", given: leasedJob, when: cancel, then: []events.Event{cancelling}},
		{name: "before it runs", given: acceptedJob, when: cancel, then: []events.Event{cancelling}},
		{name: "while it runs", given: runningJob, when: cancel, then: []events.Event{cancelling}},
		{name: "twice", given: endingJob, when: cancel},
		{name: "with another grace", given: runningJob, when: sooner(60, 0, "stop"), then: kill(time.Minute, "stop")},
		{name: "with another grace while it waits", given: queuedJob, when: sooner(60, 0, "stop"),
			then: []events.Event{events.JobCancelled{Reason: "stop"}}},
		{name: "now, though it has time left", given: endingJob, when: sooner(0, time.Second, ""), then: kill(time.Second, "superseded")},
		{name: "sooner, with a reason", given: endingJob, when: sooner(3, 2*time.Second, "stop"), then: kill(5*time.Second, "stop")},
		{name: "when it ends by itself as soon", given: endingJob, when: sooner(8, 2*time.Second, "stop")},
		{name: "with more time", given: endingJob, when: sooner(20, 0, "stop")},
		{name: "now, though its time was over", given: timedOut, when: sooner(0, 0, ""), then: []events.Event{
			events.JobCancelRequested{Reason: "run_timeout", Deadline: noon.Add(ForceAfter), TimedOut: true}}},
		{name: "when over", given: doneJob, when: cancel},
		{name: "that there is not", when: cancel, err: ErrNoJob},
		{name: "with a token", given: queuedJob, when: func(j *Job) ([]events.Event, error) {
			return j.Cancel("tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E", nil, noon)
		}, err: fault.Field("reason", "must not hold a service token")},
	})
}

func TestJobTimesOut(t *testing.T) {
	after := func(at time.Time, silent bool) func(*Job) ([]events.Event, error) {
		return func(j *Job) ([]events.Event, error) { return j.TimeOut(at, silent) }
	}
	late := events.JobCancelRequested{Reason: "run_timeout", Deadline: runLimitOfNoon.Add(10*time.Second + ForceAfter), TimedOut: true}
	forced := []events.Event{events.JobCancelled{Epoch: 1, Reason: "superseded", Forced: true}}
	requeued := func(why string, expires time.Time) []events.Event {
		return append(runningJob[:4:4], events.JobRequeued{Epoch: 1, Reason: why, NotBefore: noon, ExpiresAt: expires})
	}
	begunLate := append(acceptedJob[:3:3], cancelling, jobStarted) // cancelled at once, and started all the same
	check(t, []spec[Job]{
		{name: "in the queue", given: queuedJob, when: after(noon.Add(time.Hour), false), then: []events.Event{events.JobExpired{}}},
		{name: "in the queue again, after a time anew", given: requeued("infra", noon.Add(2*time.Hour)),
			when: after(noon.Add(2*time.Hour), false),
			then: []events.Event{events.JobExpired{}}},
		{name: "not yet in the queue again", given: requeued("infra", noon.Add(2*time.Hour)), when: after(noon.Add(2*time.Hour-1), false)},
		{name: "when its runner gave it back", given: requeued("declined", time.Time{}), when: after(noon.Add(time.Hour), false),
			then: []events.Event{events.JobExpired{}}},
		{name: "not yet", given: queuedJob, when: after(noon.Add(time.Hour-1), true)},
		{name: "while it runs", given: runningJob, when: after(runLimitOfNoon, false), then: []events.Event{late}},
		{name: "not yet while it runs", given: runningJob, when: after(runLimitOfNoon.Add(-1), true)},
		{name: "accepted and never begun", given: acceptedJob, when: after(runLimitOfNoon, false), then: []events.Event{late}},
		{name: "by force", given: endingJob, when: after(cancelLimit, false), then: forced},
		{name: "when its runner is silent", given: endingJob, when: after(noon, true), then: forced},
		{name: "not yet by force", given: endingJob, when: after(cancelLimit.Add(-1), false)},
		{name: "a start moves no deadline", given: begunLate, when: after(cancelLimit, false), then: forced},
		{name: "for its time, by force", given: append(runningJob[:4:4], late), when: after(late.Deadline, false),
			then: []events.Event{events.JobCancelled{Epoch: 1, Reason: "run_timeout", Forced: true, TimedOut: true}}},
		{name: "when over", given: doneJob, when: after(noon.AddDate(1, 0, 0), true)},
	})
}
