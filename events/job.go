package events

import "time"

// jobs are run by the build farm, each with its own stream.
var jobs = Noun{
	Name: "job", Audience: Everybody,
	people: [][]decoder{
		decodersOf[JobCancelRequested](),
		decodersOf[JobCancelled](),
	},
	work: [][]decoder{
		decodersOf[JobSubmitted](),
		decodersOf[JobLeased](),
		decodersOf[JobAccepted](),
		decodersOf[JobDeclined](),
		decodersOf[JobRequeued](),
		decodersOf[JobStarted](),
		decodersOf[JobCheckedOut](),
		decodersOf[JobStepStarted](),
		decodersOf[JobStepFinished](),
		decodersOf[JobFinished](),
		decodersOf[JobLeaseExpired](),
		decodersOf[JobLost](),
		decodersOf[JobExpired](),
		decodersOf[JobLogSealed](),
		decodersOf[JobArtifactsDeclared](),
		decodersOf[JobArtifactStored](),
		decodersOf[JobArtifactsCompleted](),
		decodersOf[JobArtifactsAbandoned](),
		decodersOf[JobArtifactsRemoved](),
	},
}

// A JobState says what a job is doing, or how it ended.
type JobState string

// The states. Those after JobStateCancelling are final.
const (
	JobStateQueued     JobState = "queued"
	JobStateLeased     JobState = "leased" // a runner has it and has not started it
	JobStateRunning    JobState = "running"
	JobStateCancelling JobState = "cancelling" // a runner has it and was told to stop

	JobStateSucceeded JobState = "succeeded"
	JobStateFailed    JobState = "failed"
	JobStateCancelled JobState = "cancelled"
	JobStateTimedOut  JobState = "timed_out"
	JobStateLost      JobState = "lost"    // no runner finished it within its number of attempts
	JobStateExpired   JobState = "expired" // no runner took it in time
)

// JobStates returns all states, the final ones last.
func JobStates() []JobState {
	return []JobState{
		JobStateQueued, JobStateLeased, JobStateRunning, JobStateCancelling,
		JobStateSucceeded, JobStateFailed, JobStateCancelled, JobStateTimedOut, JobStateLost, JobStateExpired,
	}
}

// Held reports whether a runner has a job of state s.
func (s JobState) Held() bool {
	return s == JobStateLeased || s == JobStateRunning || s == JobStateCancelling
}

// Final reports whether a job of state s has ended.
func (s JobState) Final() bool { return s != "" && s != JobStateQueued && !s.Held() }

// JobSubmitted says that somebody asked the farm for a job.
type JobSubmitted struct {
	jobEvent
	Spec        JobSpec   `json:"spec"`
	Requirement string    `json:"requirement"`      // [JobRequires.Key] of the spec
	FairKey     string    `json:"fairKey"`          // whose share of the farm it uses: the repository's, or the submitter's
	Turn        int64     `json:"turn"`             // its position in the queue, in milliseconds since 1970; the smallest goes first
	ExpiresAt   time.Time `json:"expiresAt"`        // when it expires unless a runner has taken it
	RetryOf     ID        `json:"retryOf,omitzero"` // the ended job that somebody tried again
}

func (JobSubmitted) Kind() string              { return "job.submitted" }
func (e JobSubmitted) target(r *Record) Target { return Target{"job", r.Stream, e.Spec.Name} }
func (e JobSubmitted) changes(*Record) []Change {
	list := []Change{{"state", nil, JobStateQueued}, {"name", nil, e.Spec.Name}, {"priority", nil, e.Spec.Priority}}
	if e.Spec.Repo != nil {
		list = append(list, Change{"repo", nil, e.Spec.Repo.Name}, Change{"commit", nil, e.Spec.Repo.Commit})
	}
	if !e.RetryOf.IsZero() {
		list = append(list, Change{"retryOf", nil, e.RetryOf})
	}
	return list
}

// JobLeased says that a job was given to a runner, and to no other. Epoch numbers the
// leases of a job.
type JobLeased struct {
	jobEvent
	Epoch      int       `json:"epoch"`
	Attempt    int       `json:"attempt"`
	Runner     ID        `json:"runnerId"`
	RunnerName string    `json:"runnerName"`
	AcceptBy   time.Time `json:"acceptBy"` // when the lease ends unless the runner has accepted
	Key        string    `json:"concurrencyKey,omitempty"`
	Slot       int       `json:"slot,omitempty"` // of that concurrency key, from 1
}

func (JobLeased) Kind() string { return "job.leased" }
func (e JobLeased) changes(*Record) []Change {
	return []Change{{"state", JobStateQueued, JobStateLeased}, {"runner", nil, e.RunnerName}, {"attempt", nil, e.Attempt}}
}

// JobAccepted says that the runner has accepted the lease.
type JobAccepted struct {
	jobEvent
	Epoch    int       `json:"epoch"`
	Deadline time.Time `json:"deadline"` // of the job, in case the runner never reports that it has started
}

func (JobAccepted) Kind() string { return "job.accepted" }

// JobDeclined says that the runner does not take the job. It does not count as an attempt.
type JobDeclined struct {
	jobEvent
	Epoch  int    `json:"epoch"`
	Runner ID     `json:"runnerId"`
	Reason string `json:"reason"` // busy, unsupported, disk_full, draining, no_answer, no_secrets
}

func (JobDeclined) Kind() string { return "job.declined" }

// JobRequeued says that a job which a runner had is back in the queue.
type JobRequeued struct {
	jobEvent
	Epoch     int               `json:"epoch"`  // that has ended
	Reason    string            `json:"reason"` // declined, lease_expired, infra
	NotBefore time.Time         `json:"notBefore"`
	ExpiresAt time.Time         `json:"expiresAt,omitzero"` // its new expiry if it had been accepted; zero if the expiry stays
	Report    *JobAttemptReport `json:"said,omitempty"`     // if the reason is infra
}

func (JobRequeued) Kind() string { return "job.requeued" }
func (e JobRequeued) changes(*Record) []Change {
	return []Change{{"state", nil, JobStateQueued}, {"reason", nil, e.Why()}}
}

// Why returns the reason that the runner gave, or else Reason.
func (e JobRequeued) Why() string { return e.Report.reasonOr(e.Reason) }

// JobAttemptReport is the runner's report about an attempt that it could not finish.
type JobAttemptReport struct {
	Reason string        `json:"reason,omitempty"` // such as sandbox_failed
	Log    JobLogSummary `json:"log"`
}

// reasonOr returns the runner's reason, or reason if the runner gave none.
func (r *JobAttemptReport) reasonOr(reason string) string {
	if r == nil || r.Reason == "" {
		return reason
	}
	return r.Reason
}

// JobStarted says that the runner has started the job.
type JobStarted struct {
	jobEvent
	Epoch    int       `json:"epoch"`
	Seq      int64     `json:"seq"`      // number of the runner's report in this epoch
	Deadline time.Time `json:"deadline"` // when the job has to have ended
}

func (JobStarted) Kind() string { return "job.started" }
func (JobStarted) changes(*Record) []Change {
	return []Change{{"state", JobStateLeased, JobStateRunning}}
}

// JobCheckedOut says which commit a job that was submitted by ref builds, as the runner that was first to check it out
// reported. Later attempts build the same commit.
type JobCheckedOut struct {
	jobEvent
	Epoch  int    `json:"epoch"`
	Seq    int64  `json:"seq"`
	Commit string `json:"commit"` // 40 or 64 hex digits
}

func (JobCheckedOut) Kind() string               { return "job.checked_out" }
func (e JobCheckedOut) changes(*Record) []Change { return []Change{{"commit", nil, e.Commit}} }

// JobStepStarted says that a step began. Step is its index, 0 the first.
type JobStepStarted struct {
	jobEvent
	Epoch int       `json:"epoch"`
	Seq   int64     `json:"seq"`
	Step  int       `json:"step"`
	At    time.Time `json:"startedAt"` // by the clock of the runner

	LogFrom int64 `json:"logFrom,omitempty"` // offset in the log at which the step's output begins
	LogLine int64 `json:"logLine,omitempty"` // number of that line, from 1; 0 in events of earlier builds, which lack logFrom too
}

func (JobStepStarted) Kind() string { return "job.step_started" }

// JobStepFinished says how a step ended.
type JobStepFinished struct {
	jobEvent
	Epoch    int       `json:"epoch"`
	Seq      int64     `json:"seq"`
	Step     int       `json:"step"`
	Outcome  string    `json:"outcome"` // succeeded, failed, cancelled, timed_out
	ExitCode *int      `json:"exitCode,omitempty"`
	At       time.Time `json:"finishedAt"`
}

func (JobStepFinished) Kind() string { return "job.step_finished" }

// JobFinished says how the job ended, as the runner reported it. A job that is being
// cancelled ends as cancelled, whatever the runner reports.
type JobFinished struct {
	jobEvent
	Epoch        int           `json:"epoch"`
	Seq          int64         `json:"seq"`
	Outcome      JobState      `json:"outcome"`          // a final state
	Reported     string        `json:"reported"`         // by the runner: succeeded, failed, cancelled, timed_out, infra
	Reason       string        `json:"reason,omitempty"` // such as artifact_missing
	ExitCode     *int          `json:"exitCode,omitempty"`
	Signal       string        `json:"signal,omitempty"`
	SignalReason string        `json:"signalReason,omitempty"`
	StartedAt    time.Time     `json:"startedAt,omitzero"`
	FinishedAt   time.Time     `json:"finishedAt,omitzero"`
	CPUMs        int64         `json:"cpuMs"`
	MaxRSSBytes  int64         `json:"maxRssBytes"`
	Log          JobLogSummary `json:"log"`
	Artifacts    int           `json:"artifacts"` // files that will be uploaded

	LeftOut      []JobLeftOut `json:"leftOut,omitempty"`      // what artifacts match and will not be uploaded, the first ones
	LeftOutCount int          `json:"leftOutCount,omitempty"` // all of it
}

// ContradictoryReport is the reason of a job that its runner reported as succeeded, with a step that did not succeed
// or another exit code than 0.
const ContradictoryReport = "contradictory_report"

// A JobLeftOut is a file or link in the working directory that is not uploaded, though an artifact matches it.
type JobLeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"` // such as link_outside
}

func (JobFinished) Kind() string { return "job.finished" }
func (e JobFinished) changes(*Record) []Change {
	list := []Change{{"state", nil, e.Outcome}}
	if e.ExitCode != nil {
		list = append(list, Change{"exitCode", nil, *e.ExitCode})
	}
	if e.Reason != "" {
		list = append(list, Change{"reason", nil, e.Reason})
	}
	return list
}

// A JobLogSummary describes the log that a runner sent.
type JobLogSummary struct {
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated,omitempty"`
}

// JobLeaseExpired says that the runner did not renew its lease in time.
type JobLeaseExpired struct {
	jobEvent
	Epoch  int `json:"epoch"`
	Runner ID  `json:"runnerId"`
}

func (JobLeaseExpired) Kind() string { return "job.lease_expired" }

// JobLost says that the job has failed its last attempt.
type JobLost struct {
	jobEvent
	Epoch  int               `json:"epoch"`
	Reason string            `json:"reason"`         // lease_expired, infra
	Report *JobAttemptReport `json:"said,omitempty"` // if the reason is infra
}

func (JobLost) Kind() string { return "job.lost" }
func (e JobLost) changes(*Record) []Change {
	return []Change{{"state", nil, JobStateLost}, {"reason", nil, e.Why()}}
}

// Why returns the reason that the runner gave, or else Reason.
func (e JobLost) Why() string { return e.Report.reasonOr(e.Reason) }

// JobCancelRequested says that the runner was told to stop a job.
type JobCancelRequested struct {
	jobEvent
	Reason   string    `json:"reason"`             // that the caller gave, or run_timeout
	Deadline time.Time `json:"deadline"`           // when the job counts as ended even if the runner has not reported it
	TimedOut bool      `json:"timedOut,omitempty"` // it is stopped because it ran for too long, and ends as timed out
}

func (JobCancelRequested) Kind() string { return "job.cancel_requested" }
func (e JobCancelRequested) changes(*Record) []Change {
	return []Change{{"state", nil, JobStateCancelling}, {"reason", nil, e.Reason}}
}

// JobCancelled says that a job was stopped. Forced means that its runner did not report the
// end.
type JobCancelled struct {
	jobEvent
	Epoch  int    `json:"epoch,omitempty"` // 0: no runner had it
	Reason string `json:"reason"`
	Forced bool   `json:"forced,omitempty"`

	TimedOut bool `json:"timedOut,omitempty"` // it was stopped because it ran for too long
}

func (JobCancelled) Kind() string { return "job.cancelled" }
func (e JobCancelled) changes(*Record) []Change {
	return []Change{{"state", nil, e.State()}, {"reason", nil, e.Reason}}
}

// State returns the final state of the job.
func (e JobCancelled) State() JobState {
	if e.TimedOut {
		return JobStateTimedOut
	}
	return JobStateCancelled
}

// JobExpired says that no runner took the job in time.
type JobExpired struct{ jobEvent }

func (JobExpired) Kind() string { return "job.expired" }
func (JobExpired) changes(*Record) []Change {
	return []Change{{"state", JobStateQueued, JobStateExpired}}
}

// JobLogSealed says that the log of an epoch is final: nothing will be added.
type JobLogSealed struct {
	jobEvent
	Epoch     int    `json:"epoch"`
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated,omitempty"` // the end was not stored, because of a limit
	Integrity string `json:"integrity"`           // verified; mismatch; or incomplete: its end is not stored, or the runner sent no sum
}

func (JobLogSealed) Kind() string { return "job.log_sealed" }

// LeavesRunner reports whether one of the events takes a job from its runner.
func LeavesRunner(list []Event) bool {
	for _, e := range list {
		switch e.(type) {
		case JobRequeued, JobFinished, JobCancelled, JobLost:
			return true
		}
	}
	return false
}

// jobEvent is embedded in the events of a job's stream.
type jobEvent struct{}

// IsJob marks events of jobs.
func (jobEvent) IsJob() {}

func (jobEvent) target(r *Record) Target    { return Target{"job", r.Stream, ""} }
func (jobEvent) changes(r *Record) []Change { return r.allFields() }
