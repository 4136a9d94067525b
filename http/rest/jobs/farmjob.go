package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/joblog"
	"svc/farm/wire"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

// A FarmJob is a job in lists and in the answers to submissions and cancellations.
type FarmJob struct {
	ID            string             `json:"id" format:"uuid"`
	Name          string             `json:"name" example:"unit tests"`
	State         events.JobState    `json:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired" doc:"leased: assigned to a runner that has not started it. lost: no runner finished it. expired: no runner took it in time."`
	WaitingReason waitingReason      `json:"waitingReason" doc:"Why it waits; null if it does not wait or is about to be assigned."`
	WaitingFor    []string           `json:"waitingFor" nullable:"false" doc:"For no_matching_runner, the labels that the closest connected runner lacks. The sandbox counts as a label and is bubblewrap by default." example:"[\"sandbox=bubblewrap\"]"`
	Position      *int               `json:"position" nullable:"true" doc:"Its position, from 1, among queued jobs with the same requirements; null in lists and for jobs that are not queued."`
	Priority      string             `json:"priority" enum:"low,normal,high"`
	Attempt       int                `json:"attempt"`
	MaxAttempts   int                `json:"maxAttempts"`
	Epoch         int                `json:"epoch" doc:"Number of times it was assigned to a runner."`
	Stalled       bool               `json:"stalled" doc:"Whether its runner has been silent for 30 seconds."`
	Runner        *schema.JobRunner  `json:"runner" doc:"The current or last runner; null if it was never assigned."`
	Repo          *jobRepoName       `json:"repo"`
	SubmittedBy   string             `json:"submittedBy" doc:"Name of the actor; empty for a service account if the actor is a person." example:"service:ci-bot"`
	SubmitterName string             `json:"submittedByName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	SubmittedAt   openapi.Timestamp  `json:"submittedAt"`
	QueuedAt      openapi.Timestamp  `json:"queuedAt" doc:"When it was last queued."`
	StartedAt     *openapi.Timestamp `json:"startedAt" nullable:"true"`
	FinishedAt    *openapi.Timestamp `json:"finishedAt" nullable:"true"`
	Outcome       jobOutcome         `json:"outcome" doc:"The final state; null until then."`
	Reason        string             `json:"reason" doc:"Why the job ended in this way, where the exit code does not tell. For a lost job, why its last attempt failed." example:"artifact_missing"`
	ExitCode      *int               `json:"exitCode" nullable:"true"`
	Log           schema.JobLog      `json:"log"`
	Artifacts     jobArtifacts       `json:"artifacts"`
	RetryOf       *string            `json:"retryOf" nullable:"true" format:"uuid" doc:"The ended job that it tries again; null if it is none."`
	Retryable     bool               `json:"retryable" doc:"Whether it can be retried: it has ended, and is not a job of a run."`
	Cancel        *jobCancel         `json:"cancel" doc:"The cancellation; null if it was not cancelled."`
}

type jobRepoName struct {
	_    struct{} `nullable:"true"`
	ID   string   `json:"id" format:"uuid"`
	Name string   `json:"name" example:"acme/web"`
}

type jobArtifacts struct {
	State string `json:"state" enum:"none,awaiting,partial,complete,abandoned,removed" doc:"An upload is abandoned an hour after the job's end. A succeeded job fails if its required artifacts are missing by then."`
	Count int    `json:"count" doc:"Number of stored files."`
	Bytes int64  `json:"bytes" doc:"Total size of the stored files."`
}

type jobCancel struct {
	_        struct{}           `nullable:"true"`
	By       string             `json:"by" doc:"Name of the actor; empty for a service account if the actor is a person." example:"ada@acme.example"`
	ByName   string             `json:"byName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	Reason   string             `json:"reason" example:"superseded"`
	At       openapi.Timestamp  `json:"at"`
	Deadline *openapi.Timestamp `json:"deadline" nullable:"true" doc:"When it is cancelled at the latest; null if it was queued."`
	Grace    *int               `json:"graceSeconds" nullable:"true" doc:"Seconds that it had to end by itself; null if it was queued."`
	Forced   bool               `json:"forced" doc:"Whether it was ended without confirmation by its runner. A runner that is not connected may run it for the rest of its lease."`
}

// A jobWait says why a job waits, and for what.
type jobWait struct {
	reason   string
	labels   []string
	position *int
}

func jobWaitOf(w farmviews.JobWaits, j farmviews.Job, position *int) jobWait {
	return jobWait{w.Reason(j), w.Missing(j), position}
}

func newJob(j farmviews.Job, w jobWait) FarmJob {
	out := FarmJob{
		ID: j.ID.String(), Name: j.Name, State: j.State, WaitingReason: waitingReason(w.reason), WaitingFor: append([]string{}, w.labels...),
		Position: w.position, Priority: j.Priority,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, Epoch: j.Epoch, SubmittedBy: j.SubmittedBy.Name,
		SubmittedAt: openapi.FormatTime(j.SubmittedAt), QueuedAt: openapi.FormatTime(j.QueuedAt),
		StartedAt: openapi.FormatOptionalTime(j.StartedAt), FinishedAt: openapi.FormatOptionalTime(j.FinishedAt),
		Artifacts: jobArtifacts{j.Artifacts.State, j.Artifacts.Count, j.Artifacts.Bytes},
	}
	if j.Runner != nil {
		out.Runner = &schema.JobRunner{ID: j.Runner.String(), Name: j.RunnerName}
	}
	if j.Repo != nil {
		out.Repo = &jobRepoName{ID: j.Repo.String(), Name: j.RepoName}
	}
	if j.RetryOf != nil {
		out.RetryOf = new(j.RetryOf.String())
	}
	if j.State.Final() {
		out.Outcome, out.Retryable = jobOutcome(j.State), j.SubmittedBy.Type != events.BySystem
	}
	if o := j.Outcome; o != nil {
		out.Reason, out.ExitCode, out.Log.Truncated = o.Reason, o.ExitCode, o.LogTruncated
	}
	if n := len(j.Attempts); n > 0 && j.State == events.JobStateLost {
		out.Reason, out.Log.Truncated = j.Attempts[n-1].Reason, logTruncated(j.Attempts[n-1])
	}
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Log != nil {
		sealed := j.Attempts[n-1].Log
		out.Log.Bytes, out.Log.Complete, out.Log.Integrity = sealed.Bytes, true, sealed.Integrity
		out.Log.Truncated = out.Log.Truncated || sealed.Truncated
	}
	if n := len(j.Attempts); n == 0 && j.State.Final() {
		out.Log.Complete = true
	}
	if c := j.Cancel; c != nil {
		out.Cancel = &jobCancel{
			By: c.By.Name, Reason: c.Reason, At: openapi.FormatTime(c.At), Deadline: formatNonZero(c.Deadline), Forced: c.Forced,
		}
		if !c.Deadline.IsZero() {
			out.Cancel.Grace = new(int((c.Deadline.Sub(c.At) - farm.ForceAfter).Round(time.Second).Seconds()))
		}
	}
	return out
}

func (j *FarmJob) names() []door.NamePlace {
	list := []door.NamePlace{{Address: j.SubmittedBy, Name: &j.SubmitterName}}
	if j.Cancel != nil {
		list = append(list, door.NamePlace{Address: j.Cancel.By, Name: &j.Cancel.ByName})
	}
	return list
}

// Enums that are null when empty.
type (
	waitingReason string
	jobOutcome    string
)

// MarshalJSON writes null for "".
func (r waitingReason) MarshalJSON() ([]byte, error) { return stringOrNull(string(r)) }

// MarshalJSON writes null for "".
func (o jobOutcome) MarshalJSON() ([]byte, error) { return stringOrNull(string(o)) }

func stringOrNull(s string) ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(s)
}

// Schema lists the reasons.
func (waitingReason) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Nullable: true, Enum: []any{
		farmviews.WaitsForRunner, farmviews.WaitsForSlot, farmviews.WaitsForDrained, farmviews.WaitsForRest,
		farmviews.WaitsForConcurrency, farmviews.WaitsForTime, nil,
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

func formatNonZero(t time.Time) *openapi.Timestamp {
	if t.IsZero() {
		return nil
	}
	return openapi.FormatOptionalTime(&t)
}

// A jobDetail is the answer to a request for one job.
type jobDetail struct {
	FarmJob
	Spec      jobSpec            `json:"spec" doc:"The submitted spec with defaults filled in."`
	Commit    string             `json:"commit" doc:"The commit that it builds: that of the spec, or else the one that the ref was when it was first checked out; empty until then, and without a repo." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
	Steps     []jobStep          `json:"steps" nullable:"false" doc:"The steps of the last attempt."`
	Attempts  []jobAttempt       `json:"attempts" nullable:"false" doc:"All attempts, oldest first."`
	NotBefore *openapi.Timestamp `json:"notBefore" nullable:"true" doc:"If it is queued: the time before which it is not assigned to a runner."`
	ExpiresAt openapi.Timestamp  `json:"expiresAt" doc:"When it expires if no runner has taken it."`
	LeftOut   jobLeftOut         `json:"leftOut" doc:"What artifacts match and the runner did not upload."`
	Usage     *jobUsage          `json:"usage" doc:"Its resource usage; null if unknown."`
}

// A jobLeftOut is the files and links that are not uploaded, though an artifact matches them.
type jobLeftOut struct {
	Count int              `json:"count" doc:"Number of files, links and folders."`
	First []jobLeftOutFile `json:"first" nullable:"false" doc:"The first 20 of them."`
}

type jobLeftOutFile struct {
	Path   string `json:"path" example:"dist/current"`
	Reason string `json:"reason" doc:"link_outside: a symbolic link out of the working directory or into .git. link_broken: one to nothing. link_loop: one to a folder that it is in. link_not_followed: one in the output folder of a run's job. link_too_many: too much is behind links. path_refused: some system cannot store the path. path_collision: some system takes it for that of another file. too_deep, not_a_file, unreadable." example:"link_outside"`
}

// A jobUsage is the resource usage of a job.
type jobUsage struct {
	_        struct{} `nullable:"true"`
	CPUMs    int64    `json:"cpuMs" doc:"CPU time so far, in milliseconds."`
	RSSBytes int64    `json:"rssBytes" doc:"Current memory; for a finished job, its peak."`
}

type jobStep struct {
	Name       string             `json:"name" example:"test"`
	Status     string             `json:"status" enum:"pending,running,succeeded,failed,cancelled,timed_out"`
	StartedAt  *openapi.Timestamp `json:"startedAt" nullable:"true" doc:"By the runner's clock."`
	FinishedAt *openapi.Timestamp `json:"finishedAt" nullable:"true"`
	ExitCode   *int               `json:"exitCode" nullable:"true"`
	Log        *stepLog           `json:"log" doc:"Where its output begins; null until it has started, and in jobs of earlier versions."`
}

// A stepLog is the place in the log of a job at which the output of a step begins.
type stepLog struct {
	_    struct{} `nullable:"true"`
	From int64    `json:"from" doc:"The offset of its first byte." example:"4096"`
	Line int64    `json:"line" doc:"The number of its first line, from 1. It may begin within the last line of the step before." example:"120"`
}

type jobAttempt struct {
	Epoch     int                `json:"epoch"`
	Attempt   int                `json:"attempt" doc:"The attempt's number. An attempt after a declined one has the same number."`
	Runner    schema.JobRunner   `json:"runner"`
	LeasedAt  openapi.Timestamp  `json:"leasedAt"`
	StartedAt *openapi.Timestamp `json:"startedAt" nullable:"true"`
	EndedAt   *openapi.Timestamp `json:"endedAt" nullable:"true"`
	Ended     string             `json:"ended" enum:",declined,lease_expired,infra,succeeded,failed,cancelled,timed_out,lost" doc:"How it ended; empty while it runs."`
	Reason    string             `json:"reason" doc:"Why it was declined or not finished, as reported by the runner if it gave a reason." example:"sandbox_failed"`
	Steps     []jobStep          `json:"steps" nullable:"false"`
	Log       schema.JobLog      `json:"log"`
}

func newJobDetail(one FarmJob, j farmviews.Job, spec events.JobSpec) jobDetail {
	out := jobDetail{
		FarmJob: one, Spec: newJobSpec(spec), Attempts: []jobAttempt{}, ExpiresAt: openapi.FormatTime(j.ExpiresAt),
		Commit: j.Commit, LeftOut: jobLeftOut{Count: j.Artifacts.LeftOutCount, First: []jobLeftOutFile{}},
	}
	if spec.Repo != nil && spec.Repo.Commit != "" {
		out.Commit = spec.Repo.Commit
	}
	for _, l := range j.Artifacts.LeftOut {
		out.LeftOut.First = append(out.LeftOut.First, jobLeftOutFile(l))
	}
	for _, a := range j.Attempts {
		out.Attempts = append(out.Attempts, newJobAttempt(a, spec))
	}
	if n := len(out.Attempts); n > 0 {
		out.Steps = out.Attempts[n-1].Steps
	} else {
		out.Steps = newJobSteps(spec, nil)
	}
	if j.State == events.JobStateQueued {
		out.NotBefore = openapi.FormatOptionalTime(&j.NotBefore)
	}
	if o := j.Outcome; o != nil {
		out.Usage = &jobUsage{CPUMs: o.CPUMs, RSSBytes: o.MaxRSSBytes}
	}
	return out
}

func newJobAttempt(a farmviews.JobAttempt, spec events.JobSpec) jobAttempt {
	out := jobAttempt{
		Epoch: a.Epoch, Attempt: a.Attempt, Runner: schema.JobRunner{ID: a.Runner.String(), Name: a.RunnerName},
		LeasedAt:  openapi.FormatTime(a.LeasedAt),
		StartedAt: openapi.FormatOptionalTime(a.StartedAt), EndedAt: openapi.FormatOptionalTime(a.EndedAt),
		Ended: a.Ended, Reason: a.Reason, Steps: newJobSteps(spec, a.Steps),
	}
	if a.Log != nil {
		out.Log = schema.JobLog{Bytes: a.Log.Bytes, Complete: true, Truncated: logTruncated(a) || a.Log.Truncated, Integrity: a.Log.Integrity}
	}
	return out
}

// logTruncated reports whether the runner of an unfinished attempt reported a truncated log.
func logTruncated(a farmviews.JobAttempt) bool { return a.Sent != nil && a.Sent.Truncated }

// newJobSteps returns the steps of spec with their states in list. Steps that list lacks are pending.
func newJobSteps(spec events.JobSpec, list []farmviews.JobStep) []jobStep {
	out := make([]jobStep, len(spec.Steps))
	for i, step := range spec.Steps {
		out[i] = jobStep{Name: step.Name, Status: "pending"}
		if i < len(list) {
			done := list[i]
			out[i] = jobStep{
				step.Name, done.Status, openapi.FormatOptionalTime(done.StartedAt), openapi.FormatOptionalTime(done.FinishedAt), done.ExitCode, nil,
			}
			if done.LogLine > 0 {
				out[i].Log = &stepLog{From: done.LogFrom, Line: done.LogLine}
			}
		}
	}
	return out
}

// A liveJob is the state of a job that is not in its events: the size of its log, and what its runner
// last reported.
type liveJob struct {
	log     joblog.Size // of a log that is not complete
	stalled bool
	usage   *jobUsage
}

// addTo sets the live fields of an answer.
func (l liveJob) addTo(j *FarmJob) {
	j.Stalled = l.stalled
	if !j.Log.Complete {
		j.Log.Bytes, j.Log.Truncated = l.log.Bytes, j.Log.Truncated || l.log.Truncated
	}
}

// addToDetail sets the live fields of the answer for one job.
func (l liveJob) addToDetail(j *jobDetail) {
	l.addTo(&j.FarmJob)
	if n := len(j.Attempts); n > 0 && !j.Attempts[n-1].Log.Complete {
		j.Attempts[n-1].Log.Bytes, j.Attempts[n-1].Log.Truncated = j.Log.Bytes, j.Log.Truncated
	}
	if j.Usage == nil {
		j.Usage = l.usage
	}
}

// liveJobs returns the live state of the jobs in list that are held by runners or whose log is not
// complete, by job id.
func (s *Server) liveJobs(ctx context.Context, workspace events.ID, list []farmviews.Job) (map[events.ID]liveJob, error) {
	var runners []events.ID
	open := map[events.ID]int{}
	for _, j := range list {
		if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Log == nil {
			open[j.ID] = j.Attempts[n-1].Epoch
		}
		if runner := runnerOf(j); !runner.IsZero() {
			runners = append(runners, runner)
		}
	}
	live := map[events.ID]liveJob{}
	if len(open) > 0 {
		sizes, err := s.Logs.Sizes(ctx, workspace, open)
		if err != nil {
			return nil, err
		}
		for job, size := range sizes {
			live[job] = liveJob{log: size}
		}
	}
	if len(runners) == 0 {
		return live, nil
	}
	presences, err := s.Runners.Presences(ctx, workspace, runners)
	if err != nil {
		return nil, err
	}
	for _, j := range list {
		if p, ok := presences[runnerOf(j)]; ok {
			one := live[j.ID]
			one.stalled = s.Now().Sub(p.SeenAt) > wire.StalledAfter
			one.usage = usageOf(p, j.ID)
			live[j.ID] = one
		}
	}
	return live, nil
}

// runnerOf returns the runner that has a job, or the zero id.
func runnerOf(j farmviews.Job) events.ID {
	if !j.State.Held() {
		return events.ID{}
	}
	return *j.Runner
}

// usageOf returns the usage of a job that its runner reported, nil if it reported none.
func usageOf(p farmviews.RunnerPresence, job events.ID) *jobUsage {
	for _, u := range p.Usage {
		if u.Job == job {
			return &jobUsage{CPUMs: u.CPUMs, RSSBytes: u.RSSBytes}
		}
	}
	return nil
}

// redactJob returns a job as c may see it. A service account does not see who a person is.
func redactJob(c *door.Caller, j farmviews.Job) farmviews.Job {
	if c.Token == nil {
		return j
	}
	if j.SubmittedBy.Type == events.ByUser {
		j.SubmittedBy.Name = ""
	}
	if j.Cancel != nil && j.Cancel.By.Type == events.ByUser {
		cancel := *j.Cancel
		cancel.By.Name, j.Cancel = "", &cancel
	}
	return j
}
