package events

// RunPullRequestOpened says that the branch is proposed for merging.
type RunPullRequestOpened struct {
	runEvent
	Number int `json:"number"`
}

func (RunPullRequestOpened) Kind() string { return "run.pull_request_opened" }

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

// RunLaneEntered says that it is the run's turn to merge into Branch. It keeps the turn while it is
// in the stage Merge and its approval holds.
type RunLaneEntered struct {
	runEvent
	Repo   ID     `json:"repoId"`
	Branch string `json:"branch"`
}

func (RunLaneEntered) Kind() string { return "run.lane_entered" }

// RunMergeCandidate says what merging Head into the commit Base of the target branch gives: Commit,
// whose tree is Tree. That tree is what has to pass the required jobs.
type RunMergeCandidate struct {
	runEvent
	Head   string `json:"head"`
	Base   string `json:"base"`
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
}

func (RunMergeCandidate) Kind() string { return "run.merge_candidate" }

// RunMergePostponed says that an attempt did not merge Head. The approval holds; another candidate
// follows.
type RunMergePostponed struct {
	runEvent
	Head   string `json:"head"`
	Reason string `json:"reason"` // base_moved, head_moved, host_refused, no_candidate
	Detail string `json:"detail,omitempty"`
}

func (RunMergePostponed) Kind() string { return "run.merge_postponed" }

// RunMergeAttempted says that the run began to merge Head, as its candidate Commit.
type RunMergeAttempted struct {
	runEvent
	Head   string `json:"head"`
	Commit string `json:"commit,omitempty"` // absent in events from before there were candidates
}

func (RunMergeAttempted) Kind() string { return "run.merge_attempted" }

// RunMerged says that the pull request was merged. The run is over.
type RunMerged struct {
	runEvent
	Repo        ID     `json:"repoId"`
	Head        string `json:"head"`
	MergeCommit string `json:"mergeCommit"`
	Tree        string `json:"tree,omitempty"`     // of the merge commit
	Base        string `json:"base,omitempty"`     // its first parent
	Method      string `json:"method,omitempty"`   // merge, squash
	Outside     bool   `json:"outside,omitempty"`  // somebody merged it at the code host
	By          string `json:"by,omitempty"`       // who did, as the code host says
	Untested    bool   `json:"untested,omitempty"` // Tree is not what passed the required jobs
}

func (RunMerged) Kind() string { return "run.merged" }
