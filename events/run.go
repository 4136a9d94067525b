package events

import "fmt"

// runs take issues through the stages to merged pull requests, each with its own stream.
var runs = Noun{
	Name: "run", Audience: Everybody,
	kinds: [][]decoder{
		decodersOf[RunQueued](),
		decodersOf[RunStageEntered](),
		decodersOf[RunStageSucceeded](),
		decodersOf[RunStageFailed](),
		decodersOf[RunFactsRecorded](),
		decodersOf[RunPlanRecorded](),
		decodersOf[RunBudgetSet](),
		decodersOf[RunBranchCreated](),
		decodersOf[RunCommitsPushed](earlierForm[runCommitsPushed1]),
		decodersOf[RunGuardrailsChecked](),
		decodersOf[RunJobRequested](),
		decodersOf[RunJobSettled](),
		decodersOf[RunReviewed](),
		decodersOf[RunPullRequestOpened](),
		decodersOf[RunHumanIntervened](),
		decodersOf[RunCostRecorded](),
		decodersOf[RunMergeApproved](),
		decodersOf[RunMergeApprovalVoided](),
		decodersOf[RunMergeAttempted](),
		decodersOf[RunMerged](),
		decodersOf[RunRejected](),
		decodersOf[RunFailed](),
		decodersOf[RunCancelled](),
	},
}

// A RunStatus says what a run is doing, or how it ended.
type RunStatus string

// The statuses. Those after RunStatusUnknown are final.
const (
	RunStatusQueued           RunStatus = "queued"
	RunStatusAnalyzing        RunStatus = "analyzing"
	RunStatusPlanning         RunStatus = "planning"
	RunStatusCoding           RunStatus = "coding"
	RunStatusBuilding         RunStatus = "building"
	RunStatusReviewing        RunStatus = "reviewing"
	RunStatusNeedsInput       RunStatus = "needs_input"
	RunStatusAwaitingApproval RunStatus = "awaiting_approval"
	RunStatusMerging          RunStatus = "merging"
	RunStatusUnknown          RunStatus = "unknown" // a newer build put it in a stage that this build does not know

	RunStatusMerged    RunStatus = "merged"
	RunStatusRejected  RunStatus = "rejected"
	RunStatusFailed    RunStatus = "failed"
	RunStatusCancelled RunStatus = "cancelled"
)

// Active reports whether a run of status s has not ended.
func (s RunStatus) Active() bool {
	switch s {
	case RunStatusMerged, RunStatusRejected, RunStatusFailed, RunStatusCancelled:
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
	IssueBody   string `json:"issueBody,omitempty"` // of an issue that exists only here, not at a code host
}

func (RunQueued) Kind() string { return "run.queued" }
func (e RunQueued) target(r *Record) Target {
	return Target{"run", r.Stream, fmt.Sprintf("%s#%d", e.Repo.Name, e.IssueNumber)}
}

// RunStageEntered says that a run began a stage, for the attempt-th time (1 is the first).
type RunStageEntered struct {
	runEvent
	Stage   Stage `json:"stage"`
	Attempt int   `json:"attempt"`
}

func (RunStageEntered) Kind() string { return "run.stage_entered" }

// RunStageSucceeded says that a stage did its work.
type RunStageSucceeded struct {
	runEvent
	Stage   Stage `json:"stage"`
	Attempt int   `json:"attempt"`
}

func (RunStageSucceeded) Kind() string { return "run.stage_succeeded" }

// RunStageFailed says that a stage could not do its work.
type RunStageFailed struct {
	runEvent
	Stage   Stage  `json:"stage"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

func (RunStageFailed) Kind() string { return "run.stage_failed" }

// RunFactsRecorded says what the analysis of the issue found.
type RunFactsRecorded struct {
	runEvent
	Facts []string `json:"facts"`
}

func (RunFactsRecorded) Kind() string { return "run.facts_recorded" }

// RunPlanRecorded says how the run intends to solve the issue.
type RunPlanRecorded struct {
	runEvent
	Summary string   `json:"summary"`
	Steps   []string `json:"steps"`
}

func (RunPlanRecorded) Kind() string { return "run.plan_recorded" }

// RunBudgetSet says what the run may use in total. A limit of 0 means no limit.
type RunBudgetSet struct {
	runEvent
	Cents     int64 `json:"cents"`
	ComputeMS int64 `json:"computeMs"` // on the build farm
	Rounds    int   `json:"rounds"`    // how often it may enter the stage Implementing
}

func (RunBudgetSet) Kind() string { return "run.budget_set" }

// RunBranchCreated says that the run has a branch of its own.
type RunBranchCreated struct {
	runEvent
	Branch string `json:"branch"`
}

func (RunBranchCreated) Kind() string { return "run.branch_created" }

// A FileChange is one file of a push and the lines it gained and lost.
type FileChange struct {
	Path    string         `json:"path"`
	Change  FileChangeKind `json:"change,omitempty" enum:"added,modified,removed" doc:"What became of the file; absent if that was not recorded."`
	Added   int            `json:"added"`
	Removed int            `json:"removed"`
}

// A FileChangeKind is what a push does to a file.
type FileChangeKind string

// The kinds. Events from before they were recorded have none.
const (
	FileAdded    FileChangeKind = "added"
	FileModified FileChangeKind = "modified"
	FileRemoved  FileChangeKind = "removed"
)

// Who pushed to the branch of a run.
const (
	PushedByLoop   = "loop"
	PushedByPerson = "person"
)

// RunCommitsPushed says that the branch moved to Head. Files is the whole difference from
// Base, not only that of the last commit.
type RunCommitsPushed struct {
	runEvent
	Head  string       `json:"head"`
	Base  string       `json:"base"`
	Files []FileChange `json:"files"`
	By    string       `json:"by"` // loop, person
}

func (RunCommitsPushed) Kind() string { return "run.commits_pushed" }

// runCommitsPushed1 is the first stored form of RunCommitsPushed.
type runCommitsPushed1 struct {
	Head     string       `json:"head"`
	Base     string       `json:"base"`
	Files    []FileChange `json:"files"`
	ByPerson bool         `json:"byPerson"`
}

// Now converts it to the current form.
func (e runCommitsPushed1) Now() Event {
	now := RunCommitsPushed{Head: e.Head, Base: e.Base, Files: e.Files, By: PushedByLoop}
	if e.ByPerson {
		now.By = PushedByPerson
	}
	return now
}

// A Guardrail is a rule that a push was checked against.
type Guardrail struct {
	Check    string             `json:"id"`             // such as "protected_paths"
	Status   string             `json:"status"`         // pass, block, allowed_once
	Note     string             `json:"note,omitempty"` // what was found, in short: "97 of 1,500 lines"
	Findings []GuardrailFinding `json:"findings,omitempty"`
}

// A GuardrailFinding is a path that violates a rule.
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

func (RunGuardrailsChecked) Kind() string { return "run.guardrails_checked" }

// RunJobRequested says that the run asked the build farm for a job.
type RunJobRequested struct {
	runEvent
	Job  ID     `json:"jobId"`
	Name string `json:"name"`
	Head string `json:"head"`
}

func (RunJobRequested) Kind() string { return "run.job_requested" }

// RunJobSettled says how a job of the run ended: succeeded, failed or cancelled.
type RunJobSettled struct {
	runEvent
	Job       ID     `json:"jobId"`
	Status    string `json:"status"`
	ComputeMS int64  `json:"computeMs"`
}

func (RunJobSettled) Kind() string { return "run.job_settled" }

// RunReviewed says what the self-review of Head concluded. Verdict is pass or blocking.
type RunReviewed struct {
	runEvent
	Head     string   `json:"head"`
	Verdict  string   `json:"verdict"`
	Findings []string `json:"findings,omitempty"`
}

func (RunReviewed) Kind() string { return "run.reviewed" }

// RunPullRequestOpened says that the branch is proposed for merging.
type RunPullRequestOpened struct {
	runEvent
	Number int `json:"number"`
}

func (RunPullRequestOpened) Kind() string { return "run.pull_request_opened" }

// How a person can help a run.
const (
	InterventionAnswer  = "answer"         // to a decision
	InterventionChanges = "change_request" // instead of an approval
	InterventionPush    = "push"           // to its branch
)

// RunHumanIntervened says that a person had to help, as insights count it. What is one of
// the interventions.
type RunHumanIntervened struct {
	runEvent
	Repo ID     `json:"repoId"`
	What string `json:"what"`
}

func (RunHumanIntervened) Kind() string { return "run.human_intervened" }

// RunCostRecorded says what a part of the run cost.
type RunCostRecorded struct {
	runEvent
	Repo     ID     `json:"repoId"`
	Cents    int64  `json:"cents"`
	Source   string `json:"source"`
	Quantity int64  `json:"quantity"`
}

func (RunCostRecorded) Kind() string { return "run.cost_recorded" }

// RunMergeApproved says that a person approved exactly the commit Head.
type RunMergeApproved struct {
	runEvent
	Head string `json:"head"`
}

func (RunMergeApproved) Kind() string { return "run.merge_approved" }

// RunMergeApprovalVoided says that an approval no longer counts.
type RunMergeApprovalVoided struct {
	runEvent
	Head   string `json:"head"`
	Reason string `json:"reason"`
}

func (RunMergeApprovalVoided) Kind() string { return "run.merge_approval_voided" }

// RunMergeAttempted says that the run began to merge Head.
type RunMergeAttempted struct {
	runEvent
	Head string `json:"head"`
}

func (RunMergeAttempted) Kind() string { return "run.merge_attempted" }

// RunMerged says that the pull request was merged. The run is over.
type RunMerged struct {
	runEvent
	Repo        ID     `json:"repoId"`
	Head        string `json:"head"`
	MergeCommit string `json:"mergeCommit"`
}

func (RunMerged) Kind() string { return "run.merged" }

// RunRejected says that a person turned the run's work down. The run is over.
type RunRejected struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Reason string `json:"reason"`
}

func (RunRejected) Kind() string { return "run.rejected" }

// RunFailed says that the run gave up in a stage. The run is over.
type RunFailed struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Stage  Stage  `json:"stage"`
	Reason string `json:"reason"`
}

func (RunFailed) Kind() string { return "run.failed" }

// CancelledAsDuplicate is the reason of a cancelled run whose issue is worked on elsewhere.
const CancelledAsDuplicate = "duplicate"

// RunCancelled says that somebody stopped the run. The run is over.
type RunCancelled struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Reason string `json:"reason"`
}

func (RunCancelled) Kind() string { return "run.cancelled" }

// runEvent is embedded in the events of a run's stream.
type runEvent struct{}

// IsRun marks events of runs.
func (runEvent) IsRun() {}

func (runEvent) target(r *Record) Target    { return Target{"run", r.Stream, ""} }
func (runEvent) changes(r *Record) []Change { return r.allFields() }

// EndsRun reports whether e ends its run.
func EndsRun(e Event) bool {
	switch e.(type) {
	case RunMerged, RunRejected, RunFailed, RunCancelled:
		return true
	}
	return false
}
