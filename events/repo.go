package events

import "time"

// repos are repositories that runs work on, each with its own stream, whose id is the repository's.
var repos = Noun{
	Name: "repo", Audience: Everybody,
	people: [][]decoder{
		decodersOf[RepoConnected](),
		decodersOf[RepoSettingsChanged](),
		decodersOf[RepoCredentialReplaced](),
		decodersOf[RepoHookSet](),
		decodersOf[RepoPaused](),
		decodersOf[RepoResumed](),
		decodersOf[RepoDisconnected](),
	},
	work: [][]decoder{
		decodersOf[RepoChecked](),
		decodersOf[RepoRenamed](),
		decodersOf[RepoImplementerTried](),
	},
}

// A HostKind says how a code host is spoken to.
type HostKind string

// The kinds.
const (
	HostGitHub HostKind = "github" // GitHub, GitHub Enterprise, and what speaks their interface
	HostGitea  HostKind = "gitea"  // Gitea and Forgejo
	HostGit    HostKind = "git"    // git alone: no issues and no pull requests
)

// HostKinds are all kinds.
var HostKinds = []string{string(HostGitHub), string(HostGitea), string(HostGit)}

// A RepoHost is where a repository is.
type RepoHost struct {
	Kind  HostKind `json:"kind"`
	API   string   `json:"apiUrl,omitempty"` // of the host's interface; none for kind git
	Web   string   `json:"webUrl,omitempty"` // of the repository, for browsers
	Clone string   `json:"cloneUrl"`
	ID    string   `json:"hostId,omitempty"` // the host's own id of the repository, which a new name keeps
}

// RepoConnected says that runs may work on a repository. Credential and ReadCredential are ids of
// sealed values: the first may push, the second only reads and is what build machines receive.
type RepoConnected struct {
	Name           string       `json:"name"` // owner/name
	Host           RepoHost     `json:"host"`
	Credential     ID           `json:"credentialId,omitzero"`
	ReadCredential ID           `json:"readCredentialId,omitzero"` // absent if anybody may read
	Settings       RepoSettings `json:"settings"`
}

func (RepoConnected) Kind() string              { return "repo.connected" }
func (e RepoConnected) target(r *Record) Target { return Target{"repo", r.Stream, e.Name} }
func (RepoConnected) changes(r *Record) []Change {
	return r.allFields()
}

// RepoSettings say how runs work on a repository.
type RepoSettings struct {
	Branch      string      `json:"branch"` // the one that runs merge into
	Implementer Implementer `json:"implementer"`

	// RequiredJobs have to succeed before a run merges. The policy file of the repository can add more.
	RequiredJobs []RequiredJob `json:"requiredJobs"`

	ProtectedPaths []string `json:"protectedPaths"` // besides those that are always protected
	MayAllowOnce   bool     `json:"mayAllowOnce"`   // people may allow a run to change protected paths

	Landing          Landing     `json:"landing"`
	Method           MergeMethod `json:"method"`
	ApproverNotQueue bool        `json:"approverNotQueuer,omitempty"` // whoever queued the issue may not approve its merge

	Label string `json:"label,omitempty"` // issues that get it from somebody who may write are queued; "" is off

	MaxActive int   `json:"maxActive"` // runs that are active at once
	Rounds    int   `json:"rounds"`    // how often a run may implement
	Cents     int64 `json:"cents"`     // budget of a run; 0 means none
	MaxFiles  int   `json:"maxFiles"`  // that a run may change
	MaxLines  int   `json:"maxLines"`  // that a run may add and remove

	IssueCents int64       `json:"issueCents,omitempty"` // budget of all runs of an issue, since it was set; 0 means none
	Prices     TokenPrices `json:"prices,omitzero"`
}

// TokenPrices are cents for a million tokens of the implementer's model, for implementers that report no cost.
type TokenPrices struct {
	Input  float64 `json:"inputCents"`
	Output float64 `json:"outputCents"`
}

// An ImplementerKind says who writes the code.
type ImplementerKind string

// The kinds.
const (
	ImplementerPatch   ImplementerKind = "patch"   // the issue carries the change as a diff
	ImplementerCommand ImplementerKind = "command" // a command that runs as a job of the farm
)

// An Implementer is what changes the code. All but Kind is for a command.
type Implementer struct {
	Kind        ImplementerKind `json:"kind"`
	Run         string          `json:"run,omitempty"` // shell command
	Secrets     []string        `json:"secrets,omitempty"`
	Labels      []string        `json:"labels,omitempty"` // of runners
	Sandbox     JobSandbox      `json:"sandbox,omitzero"`
	RunSeconds  int             `json:"runSeconds,omitempty"`
	IdleSeconds int             `json:"idleSeconds,omitempty"` // without a byte of output
	Stages      []JobPurpose    `json:"stages,omitempty"`      // that it does besides implementing
}

// A RequiredJob is a job that the head of a branch has to pass.
type RequiredJob struct {
	Name       string     `json:"name"`
	Steps      []JobStep  `json:"steps"`
	Labels     []string   `json:"labels,omitempty"` // of runners
	Sandbox    JobSandbox `json:"sandbox,omitzero"`
	RunSeconds int        `json:"runSeconds,omitempty"`

	// Secrets are given to the job once a person has approved the commit, and before only with
	// SecretsBeforeApproval: until then it runs code that nobody has looked at.
	Secrets               []string `json:"secrets,omitempty"`
	SecretsBeforeApproval bool     `json:"secretsBeforeApproval,omitempty"`
}

// A Landing says how a run merges.
type Landing string

// The landings.
const (
	LandByHost  Landing = "host"  // the code host merges the pull request
	LandExactly Landing = "exact" // the tested commit itself is pushed, unless the branch has moved
)

// A MergeMethod says what a merge leaves in the history.
type MergeMethod string

// The methods.
const (
	MergeCommit MergeMethod = "merge"
	MergeSquash MergeMethod = "squash"
)

// A RepoCheck is something that a probe found out by trying it.
type RepoCheck struct {
	Check  string `json:"id"`     // such as "push"
	Status string `json:"status"` // ok, lacking, noted
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	URL    string `json:"url,omitempty"` // where to mend it
}

// The statuses of a check.
const (
	CheckOK      = "ok"
	CheckLacking = "lacking" // runs cannot work without it
	CheckNoted   = "noted"   // runs can work, and somebody should know
)

// RepoChecked says what a probe of the repository found. It is recorded when the findings change.
type RepoChecked struct {
	repoEvent
	OK     bool        `json:"ok"`
	Checks []RepoCheck `json:"checks"`
}

func (RepoChecked) Kind() string { return "repo.checked" }

// RepoSettingsChanged says that somebody changed how runs work on the repository.
type RepoSettingsChanged struct {
	repoEvent
	From RepoSettings `json:"from"`
	To   RepoSettings `json:"to"`
}

func (RepoSettingsChanged) Kind() string { return "repo.settings_changed" }
func (e RepoSettingsChanged) changes(*Record) []Change {
	return differingFields(e.From, e.To)
}

// RepoCredentialReplaced says that a credential has a new value.
type RepoCredentialReplaced struct {
	repoEvent
	Which CredentialKind `json:"which"`
	Value ID             `json:"valueId,omitzero"` // absent if it was taken away
}

func (RepoCredentialReplaced) Kind() string { return "repo.credential_replaced" }

// A CredentialKind says what a credential is for.
type CredentialKind string

// The kinds.
const (
	WriteCredential CredentialKind = "write" // pushes, opens and merges pull requests; only the engine receives it
	ReadCredential  CredentialKind = "read"  // clones; build machines receive it
)

// RepoHookSet says that the code host can tell of changes at an address with the id of the hook. Its secret is sealed
// under the same id. The address that the repository had before is none any more.
type RepoHookSet struct {
	repoEvent
	Hook ID `json:"hookId"`
}

func (RepoHookSet) Kind() string { return "repo.hook_set" }

// RepoPaused says that no run works on the repository for now. A pause of the service has a Code.
type RepoPaused struct {
	repoEvent
	Reason string    `json:"reason"`         // a sentence
	Code   PauseCode `json:"code,omitempty"` // absent if a person paused it
}

// A PauseCode says why the service paused a repository.
type PauseCode string

// The codes.
const (
	PauseCredential     PauseCode = "credential"     // the code host refuses the credential
	PauseInfrastructure PauseCode = "infrastructure" // jobs fail through no fault of the code, again and again
	PauseIdentity       PauseCode = "identity"       // another repository has its name
	PauseUnhealthy      PauseCode = "check"          // a check found something lacking
)

func (RepoPaused) Kind() string { return "repo.paused" }

// RepoResumed says that runs work on the repository again.
type RepoResumed struct{ repoEvent }

func (RepoResumed) Kind() string { return "repo.resumed" }

// RepoRenamed says that the repository has another name at its host.
type RepoRenamed struct {
	repoEvent
	From string   `json:"from"`
	To   string   `json:"to"`
	Host RepoHost `json:"host"` // its addresses from now on
}

func (RepoRenamed) Kind() string { return "repo.renamed" }

// RepoImplementerTried says that the implementer was not available to a job of a run, and why, or with Unavailable "" that
// it is available again. Until RetryAt no run tries it.
type RepoImplementerTried struct {
	repoEvent
	Run         ID        `json:"runId"`
	Job         ID        `json:"jobId"`
	Unavailable string    `json:"unavailable,omitempty"` // a sentence
	RetryAt     time.Time `json:"retryAt,omitzero"`
}

func (RepoImplementerTried) Kind() string { return "repo.implementer_tried" }

// RepoDisconnected says that no run may work on the repository any more.
type RepoDisconnected struct {
	repoEvent
	Name string `json:"name"`
}

func (RepoDisconnected) Kind() string { return "repo.disconnected" }

// repoEvent is embedded in the events of a repository's stream.
type repoEvent struct{}

func (repoEvent) target(r *Record) Target    { return Target{"repo", r.Stream, ""} }
func (repoEvent) changes(r *Record) []Change { return r.allFields() }
