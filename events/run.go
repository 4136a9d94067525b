package events

import "fmt"

// runs take issues through the stages to merged pull requests, each with its own stream.
var runs = Noun{
	Name: "run", Audience: Everybody,
	people: [][]decoder{
		decodersOf[RunStopRequested](),
		decodersOf[RunCancelled](),
	},
	work: [][]decoder{
		decodersOf[RunQueued](),
		decodersOf[RunStarted](),
		decodersOf[RunWaiting](),
		decodersOf[RunIssueRead](),
		decodersOf[RunBaseRead](),
		decodersOf[RunStageEntered](),
		decodersOf[RunStageSucceeded](),
		decodersOf[RunStageFailed](),
		decodersOf[RunFactsRecorded](),
		decodersOf[RunPlanRecorded](),
		decodersOf[RunBudgetSet](),
		decodersOf[RunEstimated](),
		decodersOf[RunBranchCreated](),
		decodersOf[RunCommitsPushed](earlierForm[runCommitsPushed1]),
		decodersOf[RunGuardrailsChecked](),
		decodersOf[RunJobRequested](),
		decodersOf[RunJobSettled](),
		decodersOf[RunReviewed](),
		decodersOf[RunPullRequestOpened](),
		decodersOf[RunHumanIntervened](),
		decodersOf[RunCostRecorded](),
		decodersOf[RunLaneEntered](),
		decodersOf[RunMergeCandidate](),
		decodersOf[RunMergePostponed](),
		decodersOf[RunTidied](),
		decodersOf[RunMergeApproved](),
		decodersOf[RunMergeApprovalVoided](),
		decodersOf[RunMergeAttempted](),
		decodersOf[RunMerged](),
		decodersOf[RunRejected](),
		decodersOf[RunFailed](),
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
	RetryOf     ID     `json:"retryOf,omitzero"`    // the run of the same issue that somebody tried again

	Label *RunLabel `json:"label,omitempty"` // for which the service queued it
}

// A RunLabel is a label that somebody gave an issue at its code host.
type RunLabel struct {
	Name  string `json:"name"`
	By    string `json:"by"`      // account at the code host
	Event string `json:"eventId"` // the host's id of its being given
}

func (RunQueued) Kind() string { return "run.queued" }
func (e RunQueued) target(r *Record) Target {
	return Target{"run", r.Stream, fmt.Sprintf("%s#%d", e.Repo.Name, e.IssueNumber)}
}

// RunStarted says that the run has a place among those that may be active at once: one of the
// workspace's and one of the repository's, numbered from 1. It keeps both until its end.
type RunStarted struct {
	runEvent
	Repo     ID  `json:"repoId"`
	Slot     int `json:"slot"`
	RepoSlot int `json:"repoSlot"`
}

func (RunStarted) Kind() string { return "run.started" }

// A WaitCode says what a run waits for, other than a person's decision and its jobs.
type WaitCode string

// The codes.
const (
	WaitSlot      WaitCode = "slot"         // for a place among the active runs
	WaitTidy      WaitCode = "tidy"         // for an earlier run of its issue to be tidied up
	WaitLane      WaitCode = "lane"         // for other runs that merge into the same branch
	WaitPaused    WaitCode = "paused"       // for somebody to resume the repository
	WaitRepo      WaitCode = "disconnected" // for somebody to connect the repository again
	WaitEngine    WaitCode = "engine_away"
	WaitHost      WaitCode = "host_away"
	WaitHostLimit WaitCode = "host_limited"
	WaitHostLag   WaitCode = "host_lag"    // the code host does not show yet what it has accepted
	WaitHostRule  WaitCode = "host_rule"   // the code host refuses the merge for now
	WaitBase      WaitCode = "base_moving" // the target branch moves faster than candidates are tested
	WaitPolicy    WaitCode = "policy"      // the repository's policy file has errors
	WaitFarm      WaitCode = "farm"        // the build farm takes no more jobs for now
	WaitAgent     WaitCode = "implementer" // the implementer is not available, such as its model
	WaitBackoff   WaitCode = "backoff"     // for the next try after a failure that should pass
)

// RunWaiting says what the run waits for. It holds until the run's next event. With Code "" the run waits for none of
// the codes any more. Job is the one in which the implementer was not available, if that has just been found out: it
// is tried again, and counts as no round.
type RunWaiting struct {
	runEvent
	Code   WaitCode `json:"code"`
	Detail string   `json:"detail"` // a sentence
	Job    ID       `json:"jobId,omitzero"`
}

func (RunWaiting) Kind() string { return "run.waiting" }

// RunIssueRead says what the issue said when the run began to work on it.
type RunIssueRead struct {
	runEvent
	Title  string   `json:"title"`
	Body   string   `json:"body"`
	Open   bool     `json:"open"`
	URL    string   `json:"url,omitempty"`
	Author string   `json:"author,omitempty"` // at the code host
	Labels []string `json:"labels,omitempty"`
}

func (RunIssueRead) Kind() string { return "run.issue_read" }

// RunBaseRead says which commit the work begins from, and which policy is in force there: the
// repository's settings with what the policy file of that commit adds. The jobs that it requires
// have to succeed before the run can merge.
type RunBaseRead struct {
	runEvent
	Branch       string   `json:"branch"`
	Commit       string   `json:"commit"`
	Policy       string   `json:"policySha"`
	RequiredJobs []string `json:"requiredJobs"`
	Rounds       int      `json:"rounds,omitempty"` // that the policy allows a run; 0 is not said
	Cents        int64    `json:"cents,omitempty"`  // likewise
}

func (RunBaseRead) Kind() string { return "run.base_read" }

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
	Files   []string `json:"files,omitempty"` // that it expects to change
	Risk    string   `json:"risk,omitempty"`

	Implementer string `json:"implementer,omitempty"` // names what changes the code, so that runs of the same one can be found
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

// RunEstimated says what the run may cost and how long it may work, from runs that ended before it. It decides
// nothing. A number is absent if there were too few of them.
type RunEstimated struct {
	runEvent
	When   EstimateMoment  `json:"when"`
	Size   string          `json:"size,omitempty"` // small, medium, large
	Cents  *EstimateSpread `json:"cents,omitempty"`
	WorkMS *EstimateSpread `json:"workMs,omitempty"` // without waiting for people
	Merged int             `json:"merged"`           // how many of Basis were merged
	Basis  []ID            `json:"basis"`            // the runs that it is based on, the most similar first
}

func (RunEstimated) Kind() string { return "run.estimated" }

// An EstimateMoment says how much was known of a run.
type EstimateMoment string

// The moments.
const (
	EstimatedQueued  EstimateMoment = "queued"  // the repository
	EstimatedPlanned EstimateMoment = "planned" // the files to change
	EstimatedPushed  EstimateMoment = "pushed"  // the lines that changed
)

// An EstimateSpread says what half and four fifths of the runs stayed below.
type EstimateSpread struct {
	P50 int64 `json:"p50"`
	P80 int64 `json:"p80"`
}

// How a person can help a run.
const (
	InterventionAnswer  = "answer"         // to a decision
	InterventionChanges = "change_request" // instead of an approval
	InterventionPush    = "push"           // to its branch
	InterventionRetry   = "retry"          // of a run that had ended
)

// RunHumanIntervened says that a person had to help, as insights count it. What is one of
// the interventions.
type RunHumanIntervened struct {
	runEvent
	Repo ID     `json:"repoId"`
	What string `json:"what"`
}

func (RunHumanIntervened) Kind() string { return "run.human_intervened" }

// RunCostRecorded says what a part of the run cost. Each Key is recorded once; events from before
// there were keys have none.
type RunCostRecorded struct {
	runEvent
	Repo     ID     `json:"repoId"`
	Cents    int64  `json:"cents"`
	Source   string `json:"source"`
	Quantity int64  `json:"quantity"`
	Key      string `json:"key,omitempty"`     // such as "job/<id>/farm"
	Unknown  bool   `json:"unknown,omitempty"` // nobody knows the cost, and Cents is 0
	Basis    string `json:"basis,omitempty"`   // [CostByPrices], or "" if it was reported or measured
}

// CostByPrices is the basis of a cost that the prices of the settings say, for tokens that were reported.
const CostByPrices = "price_table"

func (RunCostRecorded) Kind() string { return "run.cost_recorded" }

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
	Repo   ID       `json:"repoId"`
	Stage  Stage    `json:"stage"`
	Reason string   `json:"reason"`
	Code   FailCode `json:"code,omitempty"` // events from before there were codes have none
}

// A FailCode says why a run failed, for machines.
type FailCode string

// The codes.
const (
	FailNoChange     FailCode = "no_change"      // the implementer changed nothing
	FailGaveUp       FailCode = "gave_up"        // the implementer said that it cannot do it
	FailNoPatch      FailCode = "no_patch"       // the issue carries no patch that applies
	FailSame         FailCode = "same_failure"   // two rounds failed in the same way
	FailRounds       FailCode = "rounds"         // all rounds are used
	FailBudget       FailCode = "budget"         // the money is used
	FailDeadline     FailCode = "deadline"       // a stage took too long
	FailGuardrails   FailCode = "guardrails"     // a rule that nobody can allow
	FailSurroundings FailCode = "infrastructure" // the farm could not run a job, repeatedly
	FailHost         FailCode = "host_refused"   // the code host refuses what the run needs
	FailBranch       FailCode = "branch_lost"    // the run's branch was deleted, twice
)

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

// RunStopRequested says that somebody stopped a run that was merging. It stops unless the merge
// that has been attempted succeeds.
type RunStopRequested struct {
	runEvent
	Reason string `json:"reason"`
}

func (RunStopRequested) Kind() string { return "run.stop_requested" }

// RunTidied says what became of the pull request and the branch of a run that is over.
type RunTidied struct {
	runEvent
	PullRequest string `json:"pullRequest"` // merged, closed, left, none
	Branch      string `json:"branch"`      // deleted, left (somebody else pushed to it), none
}

func (RunTidied) Kind() string { return "run.tidied" }

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
