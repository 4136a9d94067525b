package events

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
// Base, not only that of the last commit, or its first MaxPushedFiles with Total.
type RunCommitsPushed struct {
	runEvent
	Head  string       `json:"head"`
	Base  string       `json:"base"`
	Files []FileChange `json:"files"`
	By    string       `json:"by"`             // loop, person
	Tree  string       `json:"tree,omitempty"` // of Head
	Total *ChangeTotal `json:"total,omitempty"`
}

// MaxPushedFiles is how many files a push lists.
const MaxPushedFiles = 300

// A ChangeTotal counts a difference of which only a part is listed.
type ChangeTotal struct {
	Files   int `json:"files"`
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

func (RunCommitsPushed) Kind() string { return "run.commits_pushed" }

// Changed counts the whole difference.
func (e RunCommitsPushed) Changed() (all ChangeTotal) {
	if e.Total != nil {
		return *e.Total
	}
	all.Files = len(e.Files)
	for _, f := range e.Files {
		all.Added, all.Removed = all.Added+f.Added, all.Removed+f.Removed
	}
	return all
}

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

// A JobPurpose says what a run needs a job for.
type JobPurpose string

// The purposes. Jobs from before they were recorded have none.
const (
	JobImplements JobPurpose = "implement" // it changes the code
	JobAnalyzes   JobPurpose = "analyze"   // the implementer says what it knows of the issue
	JobPlans      JobPurpose = "plan"      // it says how it would solve it
	JobReviews    JobPurpose = "review"    // it reviews the head
	JobRequired   JobPurpose = "required"  // it tests the head of the branch
	JobLane       JobPurpose = "lane"      // it tests a merge candidate
	JobAfterMerge JobPurpose = "merged"    // it tests a merge commit that is no candidate
)

// IsImplementers reports whether jobs for that purpose run the implementer.
func (p JobPurpose) IsImplementers() bool {
	return p == JobImplements || p == JobAnalyzes || p == JobPlans || p == JobReviews
}

// RunJobRequested says that the run asked the build farm for a job, which checks out Head. Attempt
// counts the tries of the same job that failed through no fault of the code; 1 is the first.
type RunJobRequested struct {
	runEvent
	Job     ID         `json:"jobId"`
	Name    string     `json:"name"`
	Head    string     `json:"head"`
	Purpose JobPurpose `json:"purpose,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	Input   string     `json:"inputSha256,omitempty"` // of the file that the job receives, in hex
}

func (RunJobRequested) Kind() string { return "run.job_requested" }

// RunJobSettled says how a job of the run ended. Status is a final state of the job. Earlier events
// say failed for timed_out, lost and expired too.
type RunJobSettled struct {
	runEvent
	Job       ID     `json:"jobId"`
	Status    string `json:"status"`
	ComputeMS int64  `json:"computeMs"`
	Reason    string `json:"reason,omitempty"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	Failure   string `json:"failure,omitempty"` // tells how it failed: the same for jobs whose logs end alike
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
