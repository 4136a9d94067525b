package client

import (
	"encoding/json"
	"slices"
	"time"

	"svc/config"
)

// Protocol is the version of the steps' protocol. The engine is upgraded before its clients, so
// it accepts the requests of the version before.
const Protocol = 1

// A Kind names a step.
type Kind string

// The steps. Each is done once however often it is asked for, because what it changes at the code
// host is compared and swapped or found again under a stable key.
const (
	StepProbe   Kind = "probe"   // ProbeInput → ProbeResult: tries what runs need of a repository
	StepIssues  Kind = "issues"  // IssuesInput → IssuesResult: a page of open issues
	StepIssue   Kind = "issue"   // IssueInput → IssueResult: an issue, the base and its policy
	StepCommit  Kind = "commit"  // CommitInput and the change → CommitResult: applies a diff, commits and pushes it
	StepInspect Kind = "inspect" // InspectInput → InspectResult: checks a head against the guardrails
	StepPropose Kind = "propose" // ProposeInput → ProposeResult: opens the pull request, or finds it
	StepLook    Kind = "look"    // LookInput → LookResult: how branches and pull request are at the host
	StepReady   Kind = "ready"   // ReadyInput → ReadyResult: makes a merge candidate
	StepMerge   Kind = "merge"   // MergeInput → MergeResult
	StepTidy    Kind = "tidy"    // TidyInput → TidyResult: closes the pull request and deletes branches
	StepWatch   Kind = "watch"   // WatchInput → WatchResult: how all branches of runs are at the host

	StepEstimate Kind = "estimate" // EstimateInput → EstimateResult: what a run may cost; it asks nothing of the host
	StepHook     Kind = "hook"     // HookInput → HookResult: has the host tell of changes, or not any more
	StepLabelled Kind = "labelled" // LabelledInput → LabelledResult: open issues with a label, and who gave it
)

// A Step is what the engine is asked to do. Everything that it needs is in it: the engine keeps
// nothing but copies of repositories.
type Step struct {
	Protocol   int             `json:"protocol"`
	Workspace  string          `json:"workspace"`
	Run        string          `json:"run,omitempty"`
	Repository Repository      `json:"repository"`
	Seconds    int             `json:"seconds"` // after which it gives up
	Input      json.RawMessage `json:"input"`   // as Kind says
}

// A Repository is where a step works.
type Repository struct {
	ID         string     `json:"id"` // of the service
	Kind       string     `json:"kind"`
	Name       string     `json:"name"`             // owner/name
	API        string     `json:"apiUrl,omitempty"` // base address of the host's interface
	Clone      string     `json:"cloneUrl"`
	HostID     string     `json:"hostId,omitempty"` // empty if it is not known yet
	Credential Credential `json:"credential"`
}

// A Credential is a token of the code host. Only Reveal and this package's client show it.
type Credential struct{ Token config.Secret }

// MarshalJSON reveals the token: it is written to requests to the engine, and to nothing else.
func (c Credential) MarshalJSON() ([]byte, error) { return json.Marshal(c.Token.Reveal()) }

// UnmarshalJSON reads the token.
func (c *Credential) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	c.Token = config.Secret(text)
	return nil
}

// A Line is a line of the engine's answer to a step. The last one has Result or Error. The engine
// writes a line at least every five seconds.
type Line struct {
	Progress string          `json:"progress,omitempty"` // what it does now, for people
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *Failure        `json:"error,omitempty"`
}

// A Class says what a failed step means for the run.
type Class string

// The classes.
const (
	Permanent    Class = "permanent"    // it will fail in the same way again
	Transient    Class = "transient"    // it should pass
	Surroundings Class = "surroundings" // somebody has to mend something that is not the run's: a credential, a right
)

// A Failure is why a step did not do its work. Message is a sentence for people, without secrets.
type Failure struct {
	Class      Class  `json:"class"`
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter int    `json:"retryAfterSeconds,omitempty"` // 0: as the client likes
}

// Codes of failures.
const (
	CodeHostAway      = "host_away"      // transient: the code host does not answer, or with 5xx
	CodeHostLimited   = "host_limited"   // transient: rate limit
	CodeHostLag       = "host_lag"       // transient: the host does not show yet what it accepted
	CodeHostRule      = "host_rule"      // transient: the host refuses the merge for now; Message has its words
	CodeHostRefused   = "host_refused"   // permanent: the host refuses for good; Message has its words
	CodeCredential    = "credential"     // surroundings: 401, 403 or git says so
	CodeIdentity      = "identity"       // surroundings: another repository has that name
	CodeNoRepository  = "no_repository"  // surroundings: 404
	CodeEmpty         = "empty"          // permanent: the repository has no commit
	CodeNoIssue       = "no_issue"       // permanent
	CodeChange        = "change"         // permanent: the diff does not apply, or may not be applied; Message says where
	CodeNoChange      = "no_change"      // permanent: the diff changes nothing
	CodeSecret        = "secret"         // permanent: the diff adds a secret, and was not pushed
	CodeTooLarge      = "too_large"      // permanent
	CodePolicy        = "policy"         // surroundings: .svc/loop.yaml; Message has line and column
	CodeHeadMoved     = "head_moved"     // permanent: the branch is not where it is expected; look again
	CodeBaseMoved     = "base_moved"     // permanent: so is the target branch
	CodeMissingCommit = "missing_commit" // permanent: a commit that the step names is not in the repository
	CodeStep          = "unknown_step"   // the engine is older than its client
	CodeBusy          = "engine_busy"    // transient: the engine has as many steps as it takes
	CodeTimeout       = "step_timeout"   // transient: the step took longer than its Seconds
	CodeEngine        = "engine_failed"  // transient: the engine's own disk or program failed; its log has more
)

// A Check is something that a probe tried.
type Check struct {
	ID     string `json:"id"`
	Status string `json:"status"` // ok, lacking, noted
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	URL    string `json:"url,omitempty"`
}

// A ProbeInput asks for a probe. Landing and Method are as in MergeInput.
type ProbeInput struct {
	Branch         string     `json:"branch,omitempty"` // empty: the default branch
	ReadCredential Credential `json:"readCredential"`
	Landing        string     `json:"landing,omitempty"`
	Method         string     `json:"method,omitempty"`
}

// A ProbeResult is what a probe found. A line of progress precedes it for each check: its text.
type ProbeResult struct {
	OK            bool    `json:"ok"` // no check is lacking
	Checks        []Check `json:"checks"`
	Name          string  `json:"name"` // which may be new
	HostID        string  `json:"hostId,omitempty"`
	Web           string  `json:"webUrl,omitempty"`
	Clone         string  `json:"cloneUrl"`
	API           string  `json:"apiUrl,omitempty"`
	DefaultBranch string  `json:"defaultBranch"`
	Private       bool    `json:"private"`
	Requests      int     `json:"requestsLeft,omitempty"` // this hour
}

// An Issue is an issue of the code host.
type Issue struct {
	Number    int       `json:"number"`
	Title     string    `json:"title"`
	Body      string    `json:"body,omitempty"` // only of IssueResult
	Open      bool      `json:"open"`
	URL       string    `json:"url"`
	Author    string    `json:"author"`
	Labels    []string  `json:"labels"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// An IssuesInput asks for a page of open issues, newest first. Pages begin with 1.
type IssuesInput struct {
	Page    int    `json:"page"`
	PerPage int    `json:"perPage"` // at most 100
	Label   string `json:"label,omitempty"`
	Query   string `json:"query,omitempty"` // part of the title
}

// An IssuesResult has no pull requests among its issues.
type IssuesResult struct {
	Issues []Issue `json:"issues"`
	Total  int     `json:"total"` // -1: the host does not say
}

// An IssueInput asks for the issue with a number and the branch to merge into. Number 0 asks for the base alone, no branch
// for the issue alone.
// Settings is the policy that the policy file adds to.
type IssueInput struct {
	Number int    `json:"number"`
	Branch string `json:"branch"`
	Commit string `json:"commit,omitempty"` // of the branch, at which the policy file is read; empty: the present one
	Policy Policy `json:"policy"`
}

// An IssueResult is an issue and the present base with its policy.
type IssueResult struct {
	Issue  *Issue `json:"issue,omitempty"`
	Base   string `json:"base"`   // commit of the branch
	Policy Policy `json:"policy"` // merged with the policy file at Base
	SHA    string `json:"policySha"`
}

// A Policy is what the work has to keep: settings of the repository, to which the policy file adds
// jobs and protected paths and lowers limits.
type Policy struct {
	RequiredJobs   json.RawMessage `json:"requiredJobs"` // []events.RequiredJob
	ProtectedPaths []string        `json:"protectedPaths"`
	MayAllowOnce   bool            `json:"mayAllowOnce"`
	MaxFiles       int             `json:"maxFiles"`
	MaxLines       int             `json:"maxLines"`
	Rounds         int             `json:"rounds"`
	Cents          int64           `json:"cents"`
	Instructions   string          `json:"instructions,omitempty"` // text of the file that the policy file names
}

// A CommitInput asks for a commit of the change, a diff in the part "change" of the request, on Parent, pushed to
// Branch if that is still at Expected ("" if there is no such branch). The id of the commit is a
// function of the input alone.
type CommitInput struct {
	Parent   string    `json:"parent"`
	Branch   string    `json:"branch"`
	Expected string    `json:"expected"`
	Message  string    `json:"message"`
	Author   string    `json:"author"` // name <address>
	At       time.Time `json:"at"`
	Base     string    `json:"base,omitempty"`   // the result lists what differs from where the history left Base; empty: from Parent
	Policy   *Policy   `json:"policy,omitempty"` // by which secrets are looked for before the push; nil if they are not
}

// A CommitResult is the commit that is now the branch's head.
type CommitResult struct {
	Head    string       `json:"head"`
	Tree    string       `json:"tree"`
	Files   []FileChange `json:"files"` // the first events.MaxPushedFiles
	Total   int          `json:"total"` // of files
	Added   int          `json:"added"` // lines, of all files
	Removed int          `json:"removed"`
}

// A FileChange is as events.FileChange.
type FileChange struct {
	Path    string `json:"path"`
	Change  string `json:"change"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// An InspectInput asks for the guardrails on what Head changes since it left Base's history.
type InspectInput struct {
	Base   string `json:"base"`
	Head   string `json:"head"`
	Branch string `json:"branch"` // of the run
	Policy Policy `json:"policy"`
	SHA    string `json:"policySha"`
}

// An InspectResult is what the guardrails found.
type InspectResult struct {
	Status    string      `json:"status"`   // clean, blocked
	MayAllow  bool        `json:"mayAllow"` // only findings that a person may allow once
	Checks    []Guardrail `json:"checks"`
	ChangeKey string      `json:"changeKey"` // of the paths, modes and blobs that findings name: an allowance covers exactly these
	CommitResult
}

// A Guardrail is as events.Guardrail.
type Guardrail struct {
	Check    string    `json:"id"`
	Status   string    `json:"status"` // pass, block, note
	Note     string    `json:"note,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// A Finding is a path that violates a rule.
type Finding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

// A ProposeInput asks for the pull request of Branch into Base. Marker is a text that only this
// run's pull request and comment contain.
type ProposeInput struct {
	Branch string `json:"branch"`
	Head   string `json:"head"`
	Base   string `json:"base"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Marker string `json:"marker"`
	Issue  int    `json:"issue"` // gets one comment, which names the pull request
}

// A ProposeResult is the pull request. Number is 0 if the host has none.
type ProposeResult struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
}

// A LookInput asks how branches and the pull request are.
type LookInput struct {
	Branch      string `json:"branch"`
	Base        string `json:"base"`
	PullRequest int    `json:"pullRequest"` // 0: there is none
}

// A LookResult is how they are, the commits as git says.
type LookResult struct {
	Head        string       `json:"head"` // "": there is no such branch
	Base        string       `json:"base"`
	Contained   bool         `json:"contained"` // Base contains Head
	PullRequest *PullRequest `json:"pullRequest,omitempty"`
}

// A LabelledInput asks for the open issues with a label, but for those that were not updated since Known says.
type LabelledInput struct {
	Label string            `json:"label"`
	Known map[int]time.Time `json:"known,omitempty"` // by number
}

// A LabelledResult has the issues that were updated last; there may be more.
type LabelledResult struct {
	Issues []Labelled `json:"issues"`
}

// A Labelled is an issue with a label.
type Labelled struct {
	Number    int       `json:"number"`
	Title     string    `json:"title"`
	UpdatedAt time.Time `json:"updatedAt"`
	Event     string    `json:"event"` // the host's id of the last time that it got the label
	By        string    `json:"by"`
	At        time.Time `json:"at"`
	MayWrite  bool      `json:"mayWrite"` // By may write to the repository, as the host says, and is not the account of the credential
}

// A HookInput asks that the host tells URL of changes, signed with Secret, and not Former any more. Without a secret it tells
// neither.
type HookInput struct {
	URL    string     `json:"url"`
	Former string     `json:"former,omitempty"`
	Secret Credential `json:"secret"`
}

// A HookResult says whether the host does. Why has its words if it refuses.
type HookResult struct {
	Set bool   `json:"set"`
	Why string `json:"why,omitempty"`
}

// A WatchInput asks how all branches in a folder, such as "run", and their pull requests are.
type WatchInput struct {
	Folder string `json:"folder"`
}

// A WatchResult is how they are: the commits as git says, and the pull requests that were closed or merged lately.
type WatchResult struct {
	Heads  map[string]string `json:"heads"`  // by branch
	Closed []int             `json:"closed"` // pull requests
}

// Differs reports whether a run has something to look at: its branch is not at head, or its pull request is closed.
func (w *WatchResult) Differs(branch, head string, pullRequest *int) bool {
	return w.Heads[branch] != head || pullRequest != nil && slices.Contains(w.Closed, *pullRequest)
}

// A PullRequest is how the host shows it.
type PullRequest struct {
	State       string `json:"state"` // open, closed, merged
	Head        string `json:"head"`
	MergeCommit string `json:"mergeCommit,omitempty"`
	By          string `json:"by,omitempty"`   // who merged or closed it, if the host says so
	Tree        string `json:"tree,omitempty"` // of MergeCommit
	FirstParent string `json:"firstParent,omitempty"`
}

// A ReadyInput asks for what merging Head into the present Base gives. The candidate is pushed to
// Lane, unless its tree is that of Head and Landing says that the host merges. The id of the candidate
// is a function of the input and of the base alone.
type ReadyInput struct {
	Branch  string    `json:"branch"`
	Head    string    `json:"head"`
	Base    string    `json:"base"` // branch
	Lane    string    `json:"lane"` // branch
	Method  string    `json:"method"`
	Landing string    `json:"landing,omitempty"`
	Message string    `json:"message"`
	Author  string    `json:"author"`
	At      time.Time `json:"at"`
	Policy  Policy    `json:"policy"` // settings; the guardrails are checked under today's policy of the base
}

// A ReadyResult is a candidate, or the paths that conflict.
type ReadyResult struct {
	Base       string        `json:"base"`
	Commit     string        `json:"commit,omitempty"`
	Tree       string        `json:"tree,omitempty"`
	Conflicts  []string      `json:"conflicts,omitempty"`
	Policy     Policy        `json:"policy"` // at Base
	SHA        string        `json:"policySha"`
	Guardrails InspectResult `json:"guardrails"`
}

// A MergeInput asks for the merge of exactly Head, as Commit, which was made on BaseCommit.
type MergeInput struct {
	PullRequest int    `json:"pullRequest"`
	Branch      string `json:"branch"`
	Head        string `json:"head"`
	Base        string `json:"base"` // branch
	BaseCommit  string `json:"baseCommit"`
	Commit      string `json:"commit"`
	Tree        string `json:"tree"`
	Landing     string `json:"landing"` // host, exact
	Method      string `json:"method"`  // merge, squash
	Title       string `json:"title"`
	Message     string `json:"message"`
}

// A MergeResult is the merge as git shows it. Its first parent and tree are BaseCommit and Tree unless somebody
// else moved the target branch in between.
type MergeResult struct {
	Commit      string `json:"commit"`
	Tree        string `json:"tree"`
	FirstParent string `json:"firstParent"`
	Outside     bool   `json:"outside"` // it had been merged before
	By          string `json:"by,omitempty"`
}

// A TidyInput asks for the end of a run's branch and pull request.
type TidyInput struct {
	Branch      string `json:"branch"`
	Head        string `json:"head"`             // the branch is deleted if it is there
	Author      string `json:"author,omitempty"` // or at a commit of theirs: a push that was not recorded
	Lane        string `json:"lane"`
	PullRequest int    `json:"pullRequest"`
	Close       bool   `json:"close"`
	Comment     string `json:"comment,omitempty"` // takes the place of the run's comment on the issue
	Issue       int    `json:"issue"`
	Marker      string `json:"marker"`
}

// A TidyResult is as events.RunTidied.
type TidyResult struct {
	PullRequest string `json:"pullRequest"`
	Branch      string `json:"branch"`
}
