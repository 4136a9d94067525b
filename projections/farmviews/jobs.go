package farmviews

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections/fold"
)

// Jobs is the view of the build farm's jobs. It is inline, so that a job that is leased to a runner
// leaves the queue in the same transaction.
type Jobs struct{ DB *pgxpool.Pool }

// A Job is a row of the view.
type Job struct {
	Workspace   events.ID          `db:"workspace_id"`
	ID          events.ID          `db:"job_id"`
	Name        string             `db:"name"`
	State       events.JobState    `db:"state"`
	SubmittedBy events.Actor       `db:"submitted_by"`
	Requirement string             `db:"requirement"`
	Required    events.JobRequires `db:"required"` // including those of its sandbox
	Repo        *events.ID         `db:"repo_id"`
	RepoName    string             `db:"repo_name"`
	Priority    string             `db:"priority"`
	FairKey     string             `db:"fair_key"`
	Turn        int64              `db:"turn"`
	SubmittedAt time.Time          `db:"submitted_at"`
	QueuedAt    time.Time          `db:"queued_at"`
	NotBefore   time.Time          `db:"not_before"`
	Epoch       int                `db:"epoch"`
	Attempt     int                `db:"attempt"`
	MaxAttempts int                `db:"max_attempts"`
	Runner      *events.ID         `db:"runner_id"`
	RunnerName  string             `db:"runner_name"`
	Excluded    []events.ID        `db:"excluded"`
	Key         string             `db:"concurrency_key"`
	Concurrency int                `db:"concurrency"`
	Slot        int                `db:"slot"`
	LeasedAt    *time.Time         `db:"leased_at"`
	Accepted    bool               `db:"accepted"`
	StartedAt   *time.Time         `db:"started_at"`
	FinishedAt  *time.Time         `db:"finished_at"`
	DueAt       *time.Time         `db:"due_at"` // when dispatch has to act on its deadline
	RunSeconds  int                `db:"run_seconds"`
	ExpiresAt   time.Time          `db:"expires_at"`
	Cancel      *JobCancel         `db:"cancel"`
	Outcome     *JobOutcome        `db:"outcome"`
	Attempts    []JobAttempt       `db:"attempts"` // oldest first
	Artifacts   JobArtifacts       `db:"artifacts"`
	RetryOf     *events.ID         `db:"retry_of"`
	Commit      string             `db:"checked_out"` // that its ref was when it was first checked out; "" if it was submitted with one
}

// A JobCancel says who asked to cancel a job.
type JobCancel struct {
	By       events.Actor `json:"by"`
	Reason   string       `json:"reason"`
	At       time.Time    `json:"at"`
	Deadline time.Time    `json:"deadline,omitzero"`
	Forced   bool         `json:"forced,omitempty"`
}

// A JobOutcome says how a job ended, as its runner reported it.
type JobOutcome struct {
	Reported     string `json:"reported"`
	Reason       string `json:"reason,omitempty"`
	ExitCode     *int   `json:"exitCode,omitempty"`
	Signal       string `json:"signal,omitempty"`
	SignalReason string `json:"signalReason,omitempty"`
	CPUMs        int64  `json:"cpuMs"`
	MaxRSSBytes  int64  `json:"maxRssBytes"`
	LogTruncated bool   `json:"logTruncated,omitempty"`
}

// A JobAttempt is the work of one runner on a job.
type JobAttempt struct {
	Epoch      int        `json:"epoch"`
	Attempt    int        `json:"attempt"`
	Runner     events.ID  `json:"runnerId"`
	RunnerName string     `json:"runnerName"`
	LeasedAt   time.Time  `json:"leasedAt"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	EndedAt    *time.Time `json:"endedAt,omitempty"`
	Ended      string     `json:"ended,omitempty"` // a final state, declined, lease_expired or infra; empty while it goes on
	Steps      []JobStep  `json:"steps"`

	Reason string                `json:"reason,omitempty"` // why it was declined or failed
	Sent   *events.JobLogSummary `json:"sent,omitempty"`   // as reported by a runner whose attempt failed
	Log    *JobLog               `json:"log,omitempty"`    // set when it is sealed
}

// A JobStep is the progress of a step of an attempt.
type JobStep struct {
	Status     string     `json:"status"` // pending, running, succeeded, failed, cancelled, timed_out
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	ExitCode   *int       `json:"exitCode,omitempty"`

	LogFrom int64 `json:"logFrom,omitempty"` // as in events.JobStepStarted
	LogLine int64 `json:"logLine,omitempty"`
}

// A JobLog is the sealed log of an attempt.
type JobLog struct {
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated,omitempty"`
	Integrity string `json:"integrity"`
}

// JobArtifacts is the progress of a job's artifacts.
type JobArtifacts struct {
	State    string `json:"state"` // none, awaiting, partial, complete, abandoned, removed
	Declared int    `json:"declared"`
	Count    int    `json:"count"` // number stored
	Bytes    int64  `json:"bytes"` // total size of those stored

	LeftOut      []JobLeftOut `json:"leftOut,omitempty"`      // what artifacts match and the runner did not upload, the first ones
	LeftOutCount int          `json:"leftOutCount,omitempty"` // all of it
}

// JobLeftOut is a file or link that is not uploaded, though an artifact matches it.
type JobLeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// jobEvent is any event of a job's stream.
type jobEvent interface{ IsJob() }

var jobs = &fold.Table[events.ID, Job]{
	View: "jobs", Updated: fold.Inline, Key: "job_id",
	Kinds: []string{"job"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(jobEvent); ok {
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, j *Job, r events.Record) *Job {
		if e, ok := r.Event.(events.JobSubmitted); ok {
			return newJob(id, e, r)
		}
		after := *j
		after.Attempts = slices.Clone(j.Attempts)
		after.apply(r)
		return &after
	},
}

func newJob(id events.ID, e events.JobSubmitted, r events.Record) *Job {
	s := e.Spec
	j := &Job{
		Workspace: r.Workspace, ID: id, Name: s.Name, State: events.JobStateQueued, SubmittedBy: r.Actor,
		Requirement: e.Requirement, Required: s.Required(), Priority: string(s.Priority), FairKey: e.FairKey, Turn: e.Turn,
		SubmittedAt: r.At, QueuedAt: r.At, NotBefore: r.At, MaxAttempts: s.Retry.MaxAttempts,
		Excluded: []events.ID{}, RunSeconds: s.Timeouts.RunSeconds, ExpiresAt: e.ExpiresAt, DueAt: &e.ExpiresAt,
		Attempts: []JobAttempt{}, Artifacts: JobArtifacts{State: "none"},
	}
	if !e.RetryOf.IsZero() {
		j.RetryOf = &e.RetryOf
	}
	if s.Repo != nil {
		j.Repo, j.RepoName = &s.Repo.ID, s.Repo.Name
	}
	if s.Concurrency != nil {
		j.Key, j.Concurrency = s.Concurrency.Key, s.Concurrency.Limit
	}
	return j
}

// apply applies an event after the submission.
func (j *Job) apply(r events.Record) {
	switch e := r.Event.(type) {
	case events.JobLeased:
		j.lease(e, r.At)
	case events.JobAccepted:
		j.Accepted = true
		if j.State == events.JobStateLeased { // a job that is being cancelled keeps its deadline
			j.DueAt = &e.Deadline
		}
	case events.JobDeclined:
		j.Attempt--
		j.Excluded = append(slices.Clone(j.Excluded), e.Runner)
		j.endAttempt("declined", r.At)
		j.noteFailure(e.Reason, nil)
	case events.JobLeaseExpired:
		j.endAttempt("lease_expired", r.At)
	case events.JobRequeued:
		j.endAttempt(e.Reason, r.At)
		j.noteFailure(e.Why(), e.Report)
		if !e.ExpiresAt.IsZero() {
			j.ExpiresAt = e.ExpiresAt
		}
		j.State, j.QueuedAt, j.NotBefore, j.DueAt, j.Slot = events.JobStateQueued, r.At, e.NotBefore, &j.ExpiresAt, 0
		j.StartedAt, j.Accepted = nil, false
	case events.JobStarted:
		if j.State == events.JobStateLeased {
			j.State, j.DueAt = events.JobStateRunning, &e.Deadline
		}
		j.Accepted, j.StartedAt = true, &r.At
		j.current().StartedAt = &r.At
	case events.JobCheckedOut:
		j.Commit = e.Commit
	case events.JobStepStarted:
		j.step(e.Step, JobStep{Status: "running", StartedAt: &e.At, LogFrom: e.LogFrom, LogLine: e.LogLine})
	case events.JobStepFinished:
		ended := j.current().stepAt(e.Step)
		ended.Status, ended.FinishedAt, ended.ExitCode = e.Outcome, &e.At, e.ExitCode
		j.step(e.Step, ended)
	case events.JobCancelRequested:
		j.State, j.DueAt = events.JobStateCancelling, &e.Deadline
		j.Cancel = &JobCancel{By: r.Actor, Reason: e.Reason, At: r.At, Deadline: e.Deadline}
	default:
		j.applyEnd(r)
	}
}

// applyEnd applies an event that ends a job, or that follows its end.
func (j *Job) applyEnd(r events.Record) {
	switch e := r.Event.(type) {
	case events.JobFinished:
		j.finish(e.Outcome, j.endOf(e, r.At))
		j.DueAt = &r.At
		j.Outcome = &JobOutcome{
			Reported: e.Reported, Reason: e.Reason, ExitCode: e.ExitCode, Signal: e.Signal, SignalReason: e.SignalReason,
			CPUMs: e.CPUMs, MaxRSSBytes: e.MaxRSSBytes, LogTruncated: e.Log.Truncated,
		}
		if e.Artifacts > 0 {
			j.Artifacts.State, j.Artifacts.Declared = "awaiting", e.Artifacts
		}
		for _, l := range e.LeftOut {
			j.Artifacts.LeftOut = append(j.Artifacts.LeftOut, JobLeftOut(l))
		}
		j.Artifacts.LeftOutCount = e.LeftOutCount
	case events.JobCancelled:
		if j.Cancel == nil {
			j.Cancel = &JobCancel{By: r.Actor, Reason: e.Reason, At: r.At}
		}
		cancel := *j.Cancel
		cancel.Forced = e.Forced
		j.Cancel = &cancel
		j.finish(e.State(), r.At)
	case events.JobLost:
		j.finish(events.JobStateLost, r.At)
		j.noteFailure(e.Why(), e.Report)
	case events.JobExpired:
		j.finish(events.JobStateExpired, r.At)
	case events.JobLogSealed:
		j.seal(e)
	case events.JobArtifactsDeclared:
		j.Artifacts.State, j.Artifacts.Declared = "partial", len(e.Files)
	case events.JobArtifactStored:
		j.Artifacts.Count++
		j.Artifacts.Bytes += e.File.Size
	case events.JobArtifactsCompleted:
		j.closeArtifacts("complete", e.FailsJob())
	case events.JobArtifactsAbandoned:
		j.closeArtifacts("abandoned", e.FailsJob())
	case events.JobArtifactsRemoved:
		j.Artifacts.State, j.Artifacts.Count, j.Artifacts.Bytes = "removed", 0, 0
	}
}

func (j *Job) lease(e events.JobLeased, at time.Time) {
	j.State, j.Epoch, j.Attempt, j.Runner, j.RunnerName, j.Slot = events.JobStateLeased, e.Epoch, e.Attempt, &e.Runner, e.RunnerName, e.Slot
	j.LeasedAt, j.Accepted, j.StartedAt = &at, false, nil
	j.DueAt = &e.AcceptBy
	j.Attempts = append(j.Attempts, JobAttempt{
		Epoch: e.Epoch, Attempt: e.Attempt, Runner: e.Runner, RunnerName: e.RunnerName, LeasedAt: at, Steps: []JobStep{},
	})
}

// endOf returns when a job ended: as long after its start as the runner's clock says, since the report comes after the
// log, and not after at.
func (j *Job) endOf(e events.JobFinished, at time.Time) time.Time {
	if j.StartedAt == nil || e.StartedAt.IsZero() || e.FinishedAt.Before(e.StartedAt) {
		return at
	}
	if end := j.StartedAt.Add(e.FinishedAt.Sub(e.StartedAt)); end.Before(at) {
		return end
	}
	return at
}

// finish ends the job. If a runner ever had it, it stays due: dispatch still has to seal its log and
// wait for its artifacts.
func (j *Job) finish(state events.JobState, at time.Time) {
	j.endAttempt(string(state), at)
	j.State, j.FinishedAt, j.DueAt, j.Slot = state, &at, nil, 0
	if j.Epoch > 0 {
		j.DueAt = &at
	}
}

// current returns the last attempt.
func (j *Job) current() *JobAttempt { return &j.Attempts[len(j.Attempts)-1] }

// endAttempt ends the last attempt unless it has ended.
func (j *Job) endAttempt(how string, at time.Time) {
	if len(j.Attempts) > 0 && j.current().EndedAt == nil {
		j.current().Ended, j.current().EndedAt = how, &at
	}
}

// step sets the progress of a step of the last attempt.
func (j *Job) step(i int, s JobStep) {
	a := j.current()
	steps := slices.Clone(a.Steps)
	for len(steps) <= i {
		steps = append(steps, JobStep{Status: "pending"})
	}
	steps[i] = s
	a.Steps = steps
}

// stepAt returns the progress of a step, the zero step if there is none yet.
func (a *JobAttempt) stepAt(i int) JobStep {
	if i < len(a.Steps) {
		return a.Steps[i]
	}
	return JobStep{}
}

// StepAt returns the index of the step that wrote the byte of the log at an offset; ok is false if a part of the
// runner wrote it before the first step, or if it is not known.
func (a *JobAttempt) StepAt(offset int64) (step int, ok bool) {
	for i, s := range a.Steps {
		if s.LogLine > 0 && s.LogFrom <= offset {
			step, ok = i, true
		}
	}
	return step, ok
}
