package events

import "time"

// jobs are what the build farm runs, each with a stream.
var jobs = Noun{
	Name: "job", Audience: Everybody,
	kinds: [][]decoder{
		of[JobSubmitted](),
		of[JobLeased](),
		of[JobAccepted](),
		of[JobDeclined](),
		of[JobRequeued](),
		of[JobStarted](),
		of[JobStepStarted](),
		of[JobStepFinished](),
		of[JobFinished](),
		of[JobLeaseExpired](),
		of[JobLost](),
		of[JobCancelRequested](),
		of[JobCancelled](),
		of[JobExpired](),
		of[JobLogSealed](),
		of[JobArtifactsDeclared](),
		of[JobArtifactStored](),
		of[JobArtifactsCompleted](),
		of[JobArtifactsAbandoned](),
	},
}

// A JobState says what a job is doing, or how it ended.
type JobState string

// The states. Those after JobCancelling are final.
const (
	JobQueued     JobState = "queued"
	JobLeasedOut  JobState = "leased" // a runner has it, and has not begun
	JobRunning    JobState = "running"
	JobCancelling JobState = "cancelling" // a runner has it, and was told to end it

	JobSucceeded   JobState = "succeeded"
	JobFailed      JobState = "failed"
	JobIsCancelled JobState = "cancelled"
	JobTimedOut    JobState = "timed_out"
	JobIsLost      JobState = "lost"    // no runner brought it to an end in as many attempts as it has
	JobIsExpired   JobState = "expired" // no runner took it in time
)

// JobStates returns all states, the final ones last.
func JobStates() []JobState {
	return []JobState{
		JobQueued, JobLeasedOut, JobRunning, JobCancelling, JobSucceeded, JobFailed, JobIsCancelled, JobTimedOut, JobIsLost, JobIsExpired,
	}
}

// Held reports whether a runner has a job of state s.
func (s JobState) Held() bool { return s == JobLeasedOut || s == JobRunning || s == JobCancelling }

// Final reports whether a job of state s has ended.
func (s JobState) Final() bool { return s != "" && s != JobQueued && !s.Held() }

// JobSubmitted says that somebody asked the farm for a job.
type JobSubmitted struct {
	jobEvent
	Spec        JobSpec   `json:"spec"`
	Requirement string    `json:"requirement"` // [JobRequires.Key] of the spec
	FairKey     string    `json:"fairKey"`     // whose turn it takes: of a repository, or of whoever submitted it
	Turn        int64     `json:"turn"`        // its place in the queue, in milliseconds since 1970; the smallest goes first
	ExpiresAt   time.Time `json:"expiresAt"`   // if no runner has taken it by then
}

func (JobSubmitted) Kind() string              { return "job.submitted" }
func (e JobSubmitted) target(r *Record) Target { return Target{"job", r.Stream, e.Spec.Name} }
func (e JobSubmitted) changes(*Record) []Change {
	list := []Change{{"state", nil, JobQueued}, {"name", nil, e.Spec.Name}, {"priority", nil, e.Spec.Priority}}
	if e.Spec.Repo != nil {
		list = append(list, Change{"repo", nil, e.Spec.Repo.Name}, Change{"commit", nil, e.Spec.Repo.Commit})
	}
	return list
}

// JobLeased says that a job was given to a runner, and to no other.
type JobLeased struct {
	jobEvent
	Epoch      int       `json:"epoch"`
	Attempt    int       `json:"attempt"`
	Runner     ID        `json:"runnerId"`
	RunnerName string    `json:"runnerName"`
	AcceptBy   time.Time `json:"acceptBy"` // or it goes to another
	Key        string    `json:"concurrencyKey,omitempty"`
	Slot       int       `json:"slot,omitempty"` // of that key, from 1
}

func (JobLeased) Kind() string { return "job.leased" }
func (e JobLeased) changes(*Record) []Change {
	return []Change{{"state", JobQueued, JobLeasedOut}, {"runner", nil, e.RunnerName}, {"attempt", nil, e.Attempt}}
}

// JobAccepted says that the runner begins it.
type JobAccepted struct {
	jobEvent
	Epoch    int       `json:"epoch"`
	Deadline time.Time `json:"deadline"` // by which it has to end, should the runner never say that it has started
}

func (JobAccepted) Kind() string { return "job.accepted" }

// JobDeclined says that the runner does not take it. It costs no attempt.
type JobDeclined struct {
	jobEvent
	Epoch  int    `json:"epoch"`
	Runner ID     `json:"runnerId"`
	Reason string `json:"reason"` // busy, unsupported, disk_full, draining, no_answer, no_secrets
}

func (JobDeclined) Kind() string { return "job.declined" }

// JobRequeued says that a job which a runner had waits for another one.
type JobRequeued struct {
	jobEvent
	Epoch     int           `json:"epoch"`  // which is over
	Reason    string        `json:"reason"` // declined, lease_expired, infra
	NotBefore time.Time     `json:"notBefore"`
	ExpiresAt time.Time     `json:"expiresAt,omitzero"` // the new time of one that was taken; otherwise it stays
	Said      *JobLastWords `json:"said,omitempty"`     // of infra
}

func (JobRequeued) Kind() string { return "job.requeued" }
func (e JobRequeued) changes(*Record) []Change {
	return []Change{{"state", nil, JobQueued}, {"reason", nil, e.Why()}}
}

// Why is the word of the runner, or else the reason.
func (e JobRequeued) Why() string { return e.Said.or(e.Reason) }

// JobLastWords are what a runner says of an attempt that it could not bring to an end.
type JobLastWords struct {
	Reason string    `json:"reason,omitempty"` // such as sandbox_failed
	Log    JobLogSum `json:"log"`
}

// or returns the reason, or another if nothing was said.
func (w *JobLastWords) or(reason string) string {
	if w == nil || w.Reason == "" {
		return reason
	}
	return w.Reason
}

// JobStarted says that the runner runs it.
type JobStarted struct {
	jobEvent
	Epoch    int       `json:"epoch"`
	Seq      int64     `json:"seq"`      // its number among what the runner said of the epoch
	Deadline time.Time `json:"deadline"` // by which it has to end
}

func (JobStarted) Kind() string             { return "job.started" }
func (JobStarted) changes(*Record) []Change { return []Change{{"state", JobLeasedOut, JobRunning}} }

// JobStepStarted says that a step began. Step is its index, 0 the first.
type JobStepStarted struct {
	jobEvent
	Epoch int       `json:"epoch"`
	Seq   int64     `json:"seq"`
	Step  int       `json:"step"`
	At    time.Time `json:"startedAt"` // by the clock of the runner
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

// JobFinished says how it ended, by the word of the runner. A job that is being
// cancelled is cancelled whatever the runner says of it.
type JobFinished struct {
	jobEvent
	Epoch        int       `json:"epoch"`
	Seq          int64     `json:"seq"`
	Outcome      JobState  `json:"outcome"`          // a final state
	Reported     string    `json:"reported"`         // the runner's word: succeeded, failed, cancelled, timed_out, infra
	Reason       string    `json:"reason,omitempty"` // such as artifact_missing
	ExitCode     *int      `json:"exitCode,omitempty"`
	Signal       string    `json:"signal,omitempty"`
	SignalReason string    `json:"signalReason,omitempty"`
	StartedAt    time.Time `json:"startedAt,omitzero"`
	FinishedAt   time.Time `json:"finishedAt,omitzero"`
	CPUMs        int64     `json:"cpuMs"`
	MaxRSSBytes  int64     `json:"maxRssBytes"`
	Log          JobLogSum `json:"log"`
	Artifacts    int       `json:"artifacts"` // files that follow
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

// A JobLogSum is what a runner says of the log that it sent.
type JobLogSum struct {
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated,omitempty"`
}

// JobLeaseExpired says that the runner which had a job was silent for too long.
type JobLeaseExpired struct {
	jobEvent
	Epoch  int `json:"epoch"`
	Runner ID  `json:"runnerId"`
}

func (JobLeaseExpired) Kind() string { return "job.lease_expired" }

// JobLost says that no attempt is left.
type JobLost struct {
	jobEvent
	Epoch  int           `json:"epoch"`
	Reason string        `json:"reason"`         // lease_expired, infra
	Said   *JobLastWords `json:"said,omitempty"` // of infra
}

func (JobLost) Kind() string { return "job.lost" }
func (e JobLost) changes(*Record) []Change {
	return []Change{{"state", nil, JobIsLost}, {"reason", nil, e.Why()}}
}

// Why is the word of the runner, or else the reason.
func (e JobLost) Why() string { return e.Said.or(e.Reason) }

// JobCancelRequested says that a job which a runner has is to end.
type JobCancelRequested struct {
	jobEvent
	Reason   string    `json:"reason"`             // of whoever asked, or run_timeout
	Deadline time.Time `json:"deadline"`           // after which it counts as ended
	TimedOut bool      `json:"timedOut,omitempty"` // it ran for too long: that is how it ends
}

func (JobCancelRequested) Kind() string { return "job.cancel_requested" }
func (e JobCancelRequested) changes(*Record) []Change {
	return []Change{{"state", nil, JobCancelling}, {"reason", nil, e.Reason}}
}

// JobCancelled says that a job was ended before its end. Forced tells that its runner
// did not say so itself.
type JobCancelled struct {
	jobEvent
	Epoch  int    `json:"epoch,omitempty"` // 0: no runner had it
	Reason string `json:"reason"`
	Forced bool   `json:"forced,omitempty"`

	TimedOut bool `json:"timedOut,omitempty"` // it ran for too long: that is how it ended
}

func (JobCancelled) Kind() string { return "job.cancelled" }
func (e JobCancelled) changes(*Record) []Change {
	return []Change{{"state", nil, e.State()}, {"reason", nil, e.Reason}}
}

// State is the one in which it ended.
func (e JobCancelled) State() JobState {
	if e.TimedOut {
		return JobTimedOut
	}
	return JobIsCancelled
}

// JobExpired says that no runner took it in time.
type JobExpired struct{ jobEvent }

func (JobExpired) Kind() string             { return "job.expired" }
func (JobExpired) changes(*Record) []Change { return []Change{{"state", JobQueued, JobIsExpired}} }

// JobLogSealed says that the log of an epoch is whole, or what it lacks: nothing comes any more.
type JobLogSealed struct {
	jobEvent
	Epoch     int    `json:"epoch"`
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"`
	Integrity string `json:"integrity"` // verified, mismatch, incomplete: the runner never said what it had sent
}

func (JobLogSealed) Kind() string { return "job.log_sealed" }

// A JobArtifact is a file that a job left.
type JobArtifact struct {
	ID     ID     `json:"id"`
	Name   string `json:"name"` // of the artifact in the spec
	Path   string `json:"path"` // in the working directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Mode   int    `json:"mode,omitempty"`
}

// JobArtifactsDeclared says which files a runner is about to upload.
type JobArtifactsDeclared struct {
	jobEvent
	Epoch int           `json:"epoch"`
	Files []JobArtifact `json:"files"`
	Bytes int64         `json:"bytes"`
}

func (JobArtifactsDeclared) Kind() string { return "job.artifacts_declared" }

// JobArtifactStored says that a file is whole, its digest checked.
type JobArtifactStored struct {
	jobEvent
	Epoch int         `json:"epoch"`
	File  JobArtifact `json:"file"`
}

func (JobArtifactStored) Kind() string { return "job.artifact_stored" }

// JobArtifactsCompleted says that all files are there. A job that had succeeded and required
// artifacts of which none was among them has failed by that.
type JobArtifactsCompleted struct {
	jobEvent
	Epoch   int      `json:"epoch"`
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Missing []string `json:"missing,omitempty"` // as of JobArtifactsAbandoned
}

func (JobArtifactsCompleted) Kind() string                 { return "job.artifacts_completed" }
func (e JobArtifactsCompleted) changes(r *Record) []Change { return failing(r, e.FailsJob()) }

// FailsJob reports whether a job that had succeeded has failed by e.
func (e JobArtifactsCompleted) FailsJob() bool { return len(e.Missing) > 0 }

// JobArtifactsAbandoned says that the files which are not there will not come. A job that
// had succeeded and lacks artifacts that it requires has failed by that.
type JobArtifactsAbandoned struct {
	jobEvent
	Epoch   int      `json:"epoch"`
	Reason  string   `json:"reason"`            // no_upload, incomplete
	Missing []string `json:"missing,omitempty"` // the required artifacts that a job lacks which had succeeded
}

func (JobArtifactsAbandoned) Kind() string                 { return "job.artifacts_abandoned" }
func (e JobArtifactsAbandoned) changes(r *Record) []Change { return failing(r, e.FailsJob()) }

// FailsJob reports whether a job that had succeeded has failed by e.
func (e JobArtifactsAbandoned) FailsJob() bool { return len(e.Missing) > 0 }

// failing returns what r states, and that a job which had succeeded has failed by it, if it has.
func failing(r *Record, fails bool) []Change {
	list := r.stated()
	if fails {
		list = append(list, Change{"state", JobSucceeded, JobFailed})
	}
	return list
}

// ArtifactMissing is the reason of a job that failed for want of an artifact that it requires.
const ArtifactMissing = "artifact_missing"

// LeavesRunner reports whether a job that a runner had is nobody's after list.
func LeavesRunner(list []Event) bool {
	for _, e := range list {
		switch e.(type) {
		case JobRequeued, JobFinished, JobCancelled, JobLost:
			return true
		}
	}
	return false
}

// jobEvent is in every event of a job's stream.
type jobEvent struct{}

// IsJob tells that the event happened to a job.
func (jobEvent) IsJob() {}

func (jobEvent) target(r *Record) Target    { return Target{"job", r.Stream, ""} }
func (jobEvent) changes(r *Record) []Change { return r.stated() }
