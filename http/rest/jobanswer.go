package rest

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/events"
	"svc/projections"
)

// A FarmJob is an item of the list, and what is answered to whoever submits one.
type FarmJob struct {
	ID            string          `json:"id" format:"uuid"`
	Name          string          `json:"name" example:"unit tests"`
	State         events.JobState `json:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired" doc:"leased: a runner has it and has not begun. lost: no runner brought it to an end. expired: none took it in time."`
	WaitingReason waitingReason   `json:"waitingReason" doc:"Why it waits; null if it does not, or is about to be given to a runner."`
	Position      *int            `json:"position" nullable:"true" doc:"Its place among the waiting jobs that require the same, 1 the first; null in lists, and of a job that does not wait."`
	Priority      string          `json:"priority" enum:"low,normal,high"`
	Attempt       int             `json:"attempt"`
	MaxAttempts   int             `json:"maxAttempts"`
	Epoch         int             `json:"epoch" doc:"How often it was given to a runner."`
	Stalled       bool            `json:"stalled" doc:"Its runner has not been heard of for 30 seconds."`
	Runner        *jobRunner      `json:"runner" doc:"That has it, or had it last: null while none had."`
	Repo          *jobRepoName    `json:"repo"`
	SubmittedBy   string          `json:"submittedBy" example:"service:ci-bot"`
	SubmittedAt   timestamp       `json:"submittedAt"`
	QueuedAt      timestamp       `json:"queuedAt" doc:"When it last began to wait."`
	StartedAt     *timestamp      `json:"startedAt" nullable:"true"`
	FinishedAt    *timestamp      `json:"finishedAt" nullable:"true"`
	Outcome       jobOutcome      `json:"outcome" doc:"How it ended."`
	Reason        string          `json:"reason" doc:"Why it ended so, where the exit code does not say it." example:"artifact_missing"`
	ExitCode      *int            `json:"exitCode" nullable:"true"`
	Log           jobLog          `json:"log"`
	Artifacts     jobArtifacts    `json:"artifacts"`
	Cancel        *jobCancel      `json:"cancel" doc:"Who asked for its end: null if nobody did."`
}

type jobRunner struct {
	_    struct{} `nullable:"true"`
	ID   string   `json:"id" format:"uuid"`
	Name string   `json:"name" example:"builder-1"`
}

type jobRepoName struct {
	_    struct{} `nullable:"true"`
	ID   string   `json:"id" format:"uuid"`
	Name string   `json:"name" example:"acme/web"`
}

type jobLog struct {
	Bytes     int64  `json:"bytes" doc:"Of the last attempt, so far."`
	Complete  bool   `json:"complete" doc:"Nothing comes any more."`
	Truncated bool   `json:"truncated" doc:"The job wrote more than is kept."`
	Integrity string `json:"integrity" enum:",verified,mismatch,incomplete" doc:"Whether it is what the runner says that it sent; empty until it is complete."`
}

type jobArtifacts struct {
	State string `json:"state" enum:"none,awaiting,partial,complete,abandoned" doc:"Abandoned an hour after the end of the job. One that had succeeded fails when required artifacts are not among those that are complete or abandoned."`
	Count int    `json:"count" doc:"Files that are stored."`
	Bytes int64  `json:"bytes" doc:"Of those."`
}

type jobCancel struct {
	_        struct{}   `nullable:"true"`
	By       string     `json:"by" example:"ada@acme.example"`
	Reason   string     `json:"reason" example:"superseded"`
	At       timestamp  `json:"at"`
	Deadline *timestamp `json:"deadline" nullable:"true" doc:"When it counts as cancelled at the latest; null if it waited."`
	Grace    *int       `json:"graceSeconds" nullable:"true" doc:"What it had from then on to end by itself; null if it waited."`
	Forced   bool       `json:"forced" doc:"It ended without a word of its runner."`
}

func newJob(j projections.Job, waits string, position *int) FarmJob {
	out := FarmJob{
		ID: j.ID.String(), Name: j.Name, State: j.State, WaitingReason: waitingReason(waits), Position: position, Priority: j.Priority,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, Epoch: j.Epoch, SubmittedBy: j.SubmittedBy.Name,
		SubmittedAt: at(j.SubmittedAt), QueuedAt: at(j.QueuedAt), StartedAt: optional(j.StartedAt), FinishedAt: optional(j.FinishedAt),
		Artifacts: jobArtifacts{j.Artifacts.State, j.Artifacts.Count, j.Artifacts.Bytes},
	}
	if j.Runner != nil {
		out.Runner = &jobRunner{ID: j.Runner.String(), Name: j.RunnerName}
	}
	if j.Repo != nil {
		out.Repo = &jobRepoName{ID: j.Repo.String(), Name: j.RepoName}
	}
	if j.State.Final() {
		out.Outcome = jobOutcome(j.State)
	}
	if o := j.Outcome; o != nil {
		out.Reason, out.ExitCode, out.Log.Truncated = o.Reason, o.ExitCode, o.LogTruncated
	}
	if n := len(j.Attempts); n > 0 && j.State == events.JobIsLost {
		out.Reason, out.Log.Truncated = j.Attempts[n-1].Reason, isCut(j.Attempts[n-1])
	}
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Log != nil {
		sealed := j.Attempts[n-1].Log
		out.Log.Bytes, out.Log.Complete, out.Log.Integrity = sealed.Bytes, true, sealed.Integrity
	}
	if n := len(j.Attempts); n == 0 && j.State.Final() {
		out.Log.Complete = true
	}
	if c := j.Cancel; c != nil {
		out.Cancel = &jobCancel{By: c.By.Name, Reason: c.Reason, At: at(c.At), Deadline: nonZero(c.Deadline), Forced: c.Forced}
		if !c.Deadline.IsZero() {
			out.Cancel.Grace = new(int((c.Deadline.Sub(c.At) - aggregates.ForceAfter).Seconds()))
		}
	}
	return out
}

// Texts of a few that are null where there is none.
type (
	waitingReason string
	jobOutcome    string
)

// MarshalJSON writes null for none.
func (r waitingReason) MarshalJSON() ([]byte, error) { return textOrNull(string(r)) }

// MarshalJSON writes null for none.
func (o jobOutcome) MarshalJSON() ([]byte, error) { return textOrNull(string(o)) }

func textOrNull(s string) ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(s)
}

// Schema lists the reasons.
func (waitingReason) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Nullable: true, Enum: []any{
		projections.WaitsForRunner, projections.WaitsForSlot, projections.WaitsForDrained, projections.WaitsForRest,
		projections.WaitsForConcurrency, projections.WaitsForTime, nil,
	}}
}

// Schema lists the outcomes.
func (jobOutcome) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Nullable: true}
	for _, state := range events.JobStates() {
		if state.Final() {
			s.Enum = append(s.Enum, state)
		}
	}
	s.Enum = append(s.Enum, nil)
	return s
}

func nonZero(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	return optional(&t)
}

// A jobDetail is a job's own answer.
type jobDetail struct {
	FarmJob
	Spec      jobSpec      `json:"spec" doc:"What was asked for, with what it left open filled in."`
	Steps     []jobStep    `json:"steps" nullable:"false" doc:"How far the last attempt came."`
	Attempts  []jobAttempt `json:"attempts" nullable:"false" doc:"What each runner made of it, the first one first."`
	NotBefore *timestamp   `json:"notBefore" nullable:"true" doc:"Of one that waits: it is not given to a runner before."`
	ExpiresAt timestamp    `json:"expiresAt" doc:"It ends if no runner has taken it by then."`
	Usage     *jobUsage    `json:"usage" doc:"What it takes now, or took: null while that is not known."`
}

// A jobUsage is what a job takes of its machine.
type jobUsage struct {
	_        struct{} `nullable:"true"`
	CPUMs    int64    `json:"cpuMs" doc:"Milliseconds of a processor so far."`
	RSSBytes int64    `json:"rssBytes" doc:"Memory now; of a job that has ended, the most it had."`
}

type jobStep struct {
	Name       string     `json:"name" example:"test"`
	Status     string     `json:"status" enum:"pending,running,succeeded,failed,cancelled,timed_out"`
	StartedAt  *timestamp `json:"startedAt" nullable:"true" doc:"By the clock of the runner."`
	FinishedAt *timestamp `json:"finishedAt" nullable:"true"`
	ExitCode   *int       `json:"exitCode" nullable:"true"`
}

type jobAttempt struct {
	Epoch     int        `json:"epoch"`
	Attempt   int        `json:"attempt" doc:"The same as of the one before if the runner declined that."`
	Runner    jobRunner  `json:"runner"`
	LeasedAt  timestamp  `json:"leasedAt"`
	StartedAt *timestamp `json:"startedAt" nullable:"true"`
	EndedAt   *timestamp `json:"endedAt" nullable:"true"`
	Ended     string     `json:"ended" enum:",declined,lease_expired,infra,succeeded,failed,cancelled,timed_out,lost" doc:"How; empty while it goes on."`
	Reason    string     `json:"reason" doc:"Why it was declined or came to no end, by the word of its runner if it said one." example:"sandbox_failed"`
	Steps     []jobStep  `json:"steps" nullable:"false"`
	Log       jobLog     `json:"log"`
}

func newJobDetail(one FarmJob, j projections.Job, spec events.JobSpec) jobDetail {
	out := jobDetail{FarmJob: one, Spec: newJobSpec(spec), Attempts: []jobAttempt{}, ExpiresAt: at(j.ExpiresAt)}
	for _, a := range j.Attempts {
		out.Attempts = append(out.Attempts, newJobAttempt(a, spec))
	}
	if n := len(out.Attempts); n > 0 {
		out.Steps = out.Attempts[n-1].Steps
	} else {
		out.Steps = stepsOf(spec, nil)
	}
	if j.State == events.JobQueued {
		out.NotBefore = optional(&j.NotBefore)
	}
	if o := j.Outcome; o != nil {
		out.Usage = &jobUsage{CPUMs: o.CPUMs, RSSBytes: o.MaxRSSBytes}
	}
	return out
}

func newJobAttempt(a projections.JobAttempt, spec events.JobSpec) jobAttempt {
	out := jobAttempt{
		Epoch: a.Epoch, Attempt: a.Attempt, Runner: jobRunner{ID: a.Runner.String(), Name: a.RunnerName}, LeasedAt: at(a.LeasedAt),
		StartedAt: optional(a.StartedAt), EndedAt: optional(a.EndedAt), Ended: a.Ended, Reason: a.Reason, Steps: stepsOf(spec, a.Steps),
	}
	if a.Log != nil {
		out.Log = jobLog{Bytes: a.Log.Bytes, Complete: true, Truncated: isCut(a), Integrity: a.Log.Integrity}
	}
	return out
}

// isCut reports whether the runner of an attempt that came to no end says that the log is not whole.
func isCut(a projections.JobAttempt) bool { return a.Sent != nil && a.Sent.Truncated }

// stepsOf names the steps, also those that were not begun.
func stepsOf(spec events.JobSpec, list []projections.JobStep) []jobStep {
	out := make([]jobStep, len(spec.Steps))
	for i, step := range spec.Steps {
		out[i] = jobStep{Name: step.Name, Status: "pending"}
		if i < len(list) {
			done := list[i]
			out[i] = jobStep{step.Name, done.Status, optional(done.StartedAt), optional(done.FinishedAt), done.ExitCode}
		}
	}
	return out
}
