package events

import "slices"

// A Stage is a step of the loop that a run goes through, in this order.
type Stage string

// The stages.
const (
	StageQueued       Stage = "queued"
	StageAnalyze      Stage = "analyze"
	StagePlan         Stage = "plan"
	StageImplementing Stage = "implementing"
	StageBuildFarm    Stage = "build_farm"
	StageSelfReview   Stage = "self_review"
	StageMerge        Stage = "merge"
)

// stages says, in the order of the loop, what each stage is called and the
// status of a run that works on it.
var stages = []struct {
	stage  Stage
	label  string
	status RunStatus
}{
	{StageQueued, "Queued", RunInQueue},
	{StageAnalyze, "Analyze", RunAnalyzing},
	{StagePlan, "Plan", RunPlanning},
	{StageImplementing, "Implementing", RunCoding},
	{StageBuildFarm, "Build farm", RunBuilding},
	{StageSelfReview, "Self-review", RunReviewing},
	{StageMerge, "Merge", RunAwaitingApproval},
}

// Stages returns the stages in the order of the loop.
func Stages() (list []Stage) {
	for _, s := range stages {
		list = append(list, s.stage)
	}
	return list
}

// StageAt returns the stage of a place in the loop, "" if this build knows none there.
func StageAt(i int) Stage {
	if i < 0 || i >= len(stages) {
		return ""
	}
	return stages[i].stage
}

// Index returns the place of s in the loop, from 0, or -1 if this build knows no
// such stage: a newer one may.
func (s Stage) Index() int {
	return slices.Index(Stages(), s)
}

// Label returns the name of s that people see.
func (s Stage) Label() string {
	if i := s.Index(); i >= 0 {
		return stages[i].label
	}
	return "Unknown"
}

// Status returns the status of a run that works on s.
func (s Stage) Status() RunStatus {
	if i := s.Index(); i >= 0 {
		return stages[i].status
	}
	return RunInUnknownStage
}

// A RunStatus says what a run is doing, or how it ended.
type RunStatus string

// The statuses. Those after RunInUnknownStage are final.
const (
	RunInQueue          RunStatus = "queued"
	RunAnalyzing        RunStatus = "analyzing"
	RunPlanning         RunStatus = "planning"
	RunCoding           RunStatus = "coding"
	RunBuilding         RunStatus = "building"
	RunReviewing        RunStatus = "reviewing"
	RunNeedsInput       RunStatus = "needs_input"
	RunAwaitingApproval RunStatus = "awaiting_approval"
	RunMerging          RunStatus = "merging"
	RunInUnknownStage   RunStatus = "unknown" // which a newer build put it in

	RunIsMerged    RunStatus = "merged"
	RunIsRejected  RunStatus = "rejected"
	RunHasFailed   RunStatus = "failed"
	RunIsCancelled RunStatus = "cancelled"
)

// Active reports whether a run of status s still moves.
func (s RunStatus) Active() bool {
	switch s {
	case RunIsMerged, RunIsRejected, RunHasFailed, RunIsCancelled:
		return false
	}
	return true
}

// A Repo is a repository that runs work on.
type Repo struct {
	ID   ID     `json:"id"`
	Name string `json:"name"` // owner/name
}

// RunQueued says that an issue was put in the queue.
type RunQueued struct {
	runEvent
	Repo        Repo   `json:"repo"`
	IssueNumber int    `json:"issueNumber"`
	IssueTitle  string `json:"issueTitle"`
	IssueBody   string `json:"issueBody,omitempty"` // of an issue that is only here
}

// RunStageEntered says that a run began a stage, for the attempt-th time (1 is the first).
type RunStageEntered struct {
	runEvent
	Stage   Stage `json:"stage"`
	Attempt int   `json:"attempt"`
}

// RunStageSucceeded says that a stage did what it is for.
type RunStageSucceeded struct {
	runEvent
	Stage   Stage `json:"stage"`
	Attempt int   `json:"attempt"`
}

// RunStageFailed says that a stage could not do what it is for.
type RunStageFailed struct {
	runEvent
	Stage   Stage  `json:"stage"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

// RunFactsRecorded says what the analysis of the issue found.
type RunFactsRecorded struct {
	runEvent
	Facts []string `json:"facts"`
}

// RunPlanRecorded says how the run means to solve the issue.
type RunPlanRecorded struct {
	runEvent
	Summary string   `json:"summary"`
	Steps   []string `json:"steps"`
}

// RunBranchCreated says that the run has a branch of its own.
type RunBranchCreated struct {
	runEvent
	Branch string `json:"branch"`
}

// A FileChange is one file of a push and the lines it gained and lost.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// Who pushes to the branch of a run.
const (
	PushedByLoop   = "loop"
	PushedByPerson = "person"
)

// RunCommitsPushed says that the branch moved to Head. Files is the whole
// difference from Base, not only that of the last commit.
type RunCommitsPushed struct {
	runEvent
	Head  string       `json:"head"`
	Base  string       `json:"base"`
	Files []FileChange `json:"files"`
	By    string       `json:"by"` // loop, person
}

// runCommitsPushed1 is the form that RunCommitsPushed had first.
type runCommitsPushed1 struct {
	Head     string       `json:"head"`
	Base     string       `json:"base"`
	Files    []FileChange `json:"files"`
	ByPerson bool         `json:"byPerson"`
}

// Now tells it in the form of today.
func (e runCommitsPushed1) Now() Event {
	now := RunCommitsPushed{Head: e.Head, Base: e.Base, Files: e.Files, By: PushedByLoop}
	if e.ByPerson {
		now.By = PushedByPerson
	}
	return now
}

// A Guardrail is one rule that was held against a push.
type Guardrail struct {
	Check    string             `json:"id"`     // such as "protected_paths"
	Status   string             `json:"status"` // pass, block, allowed_once
	Findings []GuardrailFinding `json:"findings,omitempty"`
}

// A GuardrailFinding is a path that a rule speaks about.
type GuardrailFinding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

// RunGuardrailsChecked says what the guardrails found on Head. Status is
// clean, blocked or allowed_once.
type RunGuardrailsChecked struct {
	runEvent
	Head   string      `json:"head"`
	Policy string      `json:"policySha"`
	Status string      `json:"status"`
	Checks []Guardrail `json:"checks"`
}

// RunJobRequested says that the run asked the build farm for a job.
type RunJobRequested struct {
	runEvent
	Job  ID     `json:"jobId"`
	Name string `json:"name"`
	Head string `json:"head"`
}

// RunJobSettled says how a job of the run ended: succeeded, failed or cancelled.
type RunJobSettled struct {
	runEvent
	Job       ID     `json:"jobId"`
	Status    string `json:"status"`
	ComputeMS int64  `json:"computeMs"`
}

// RunReviewed says what the self-review made of Head: pass or blocking.
type RunReviewed struct {
	runEvent
	Head     string   `json:"head"`
	Verdict  string   `json:"verdict"`
	Findings []string `json:"findings,omitempty"`
}

// RunPullRequestOpened says that the branch is proposed for merging.
type RunPullRequestOpened struct {
	runEvent
	Number int `json:"number"`
}

// How a person can help a run.
const (
	InterventionAnswer  = "answer"         // to a decision
	InterventionChanges = "change_request" // instead of an approval
	InterventionPush    = "push"           // to its branch
)

// RunHumanIntervened says that a person had to help, as insights count it.
// What says how.
type RunHumanIntervened struct {
	runEvent
	Repo ID     `json:"repoId"`
	What string `json:"what"`
}

// RunCostRecorded says what a part of the run cost.
type RunCostRecorded struct {
	runEvent
	Repo     ID     `json:"repoId"`
	Cents    int64  `json:"cents"`
	Source   string `json:"source"`
	Quantity int64  `json:"quantity"`
}

// RunMergeApproved says that a person approved exactly Head.
type RunMergeApproved struct {
	runEvent
	Head string `json:"head"`
}

// RunMergeApprovalVoided says that an approval no longer counts.
type RunMergeApprovalVoided struct {
	runEvent
	Head   string `json:"head"`
	Reason string `json:"reason"`
}

// RunMergeAttempted says that the run began to merge Head.
type RunMergeAttempted struct {
	runEvent
	Head string `json:"head"`
}

// RunMerged says that the pull request was merged. The run is over.
type RunMerged struct {
	runEvent
	Repo        ID     `json:"repoId"`
	Head        string `json:"head"`
	MergeCommit string `json:"mergeCommit"`
}

// RunRejected says that a person turned the run's work down. The run is over.
type RunRejected struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Reason string `json:"reason"`
}

// RunFailed says that the run gave up in a stage. The run is over.
type RunFailed struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason"`
}

// CancelledAsDuplicate is the reason for which a run is cancelled whose issue
// is worked on elsewhere.
const CancelledAsDuplicate = "duplicate"

// RunCancelled says that somebody stopped the run. The run is over.
type RunCancelled struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Reason string `json:"reason"`
}

// runEvent marks the events of a run's stream.
type runEvent struct{}

// IsRun tells that the event happened to a run.
func (runEvent) IsRun() {}

func (RunQueued) Kind() string              { return "run.queued" }
func (RunStageEntered) Kind() string        { return "run.stage_entered" }
func (RunStageSucceeded) Kind() string      { return "run.stage_succeeded" }
func (RunStageFailed) Kind() string         { return "run.stage_failed" }
func (RunFactsRecorded) Kind() string       { return "run.facts_recorded" }
func (RunPlanRecorded) Kind() string        { return "run.plan_recorded" }
func (RunBranchCreated) Kind() string       { return "run.branch_created" }
func (RunCommitsPushed) Kind() string       { return "run.commits_pushed" }
func (RunGuardrailsChecked) Kind() string   { return "run.guardrails_checked" }
func (RunJobRequested) Kind() string        { return "run.job_requested" }
func (RunJobSettled) Kind() string          { return "run.job_settled" }
func (RunReviewed) Kind() string            { return "run.reviewed" }
func (RunPullRequestOpened) Kind() string   { return "run.pull_request_opened" }
func (RunHumanIntervened) Kind() string     { return "run.human_intervened" }
func (RunCostRecorded) Kind() string        { return "run.cost_recorded" }
func (RunMergeApproved) Kind() string       { return "run.merge_approved" }
func (RunMergeApprovalVoided) Kind() string { return "run.merge_approval_voided" }
func (RunMergeAttempted) Kind() string      { return "run.merge_attempted" }
func (RunMerged) Kind() string              { return "run.merged" }
func (RunRejected) Kind() string            { return "run.rejected" }
func (RunFailed) Kind() string              { return "run.failed" }
func (RunCancelled) Kind() string           { return "run.cancelled" }

// EndsRun reports whether a run is over after e.
func EndsRun(e Event) bool {
	switch e.(type) {
	case RunMerged, RunRejected, RunFailed, RunCancelled:
		return true
	}
	return false
}
