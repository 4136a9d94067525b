package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// MaxJobSteps is how many steps a job can have.
const MaxJobSteps = 50

// A JobSpec describes a job. It names secrets and contains none.
type JobSpec struct {
	Name        string            `json:"name"`
	Repo        *JobRepo          `json:"repo,omitempty"`
	Steps       []JobStep         `json:"steps"`
	Requires    JobRequires       `json:"requires"`
	Sandbox     JobSandbox        `json:"sandbox"`
	Secrets     []string          `json:"secrets,omitempty"`
	Artifacts   []JobArtifactSpec `json:"artifacts,omitempty"`
	Priority    JobPriority       `json:"priority"`
	Timeouts    JobTimeouts       `json:"timeouts"`
	Retry       JobRetry          `json:"retry"`
	Concurrency *JobConcurrency   `json:"concurrency,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	InputSHA256 string            `json:"inputSha256,omitempty"` // of the file that the steps find, in hex; "" if there is none
	Collect     bool              `json:"collect,omitempty"`     // the runner keeps what the steps changed in the checkout
}

// Required returns what a runner needs to take the job: the labels that the job requires,
// and its sandbox.
func (s JobSpec) Required() JobRequires {
	r := s.Requires
	r.Labels = append(slices.Clone(r.Labels), "sandbox="+s.Sandbox.Kind)
	return r.Canonical()
}

// A JobRepo is the repository that is checked out before the first step.
type JobRepo struct {
	ID     ID     `json:"id"`
	Name   string `json:"name"` // owner/name
	Commit string `json:"commit,omitempty"`
	Ref    string `json:"ref,omitempty"`
}

// A JobStep is a shell command.
type JobStep struct {
	Name           string            `json:"name"`
	Run            string            `json:"run"`
	Shell          string            `json:"shell,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"`
}

// JobRequires says which runners are suitable: those with all of Labels and all of one set
// of AnyOf.
type JobRequires struct {
	Labels []string   `json:"labels,omitempty"`
	AnyOf  [][]string `json:"anyOf,omitempty"`
}

// Canonical returns r with labels and sets sorted and without duplicates. Equal
// requirements have the same canonical form.
func (r JobRequires) Canonical() JobRequires {
	out := JobRequires{Labels: sortedUnique(r.Labels)}
	for _, set := range r.AnyOf {
		out.AnyOf = append(out.AnyOf, sortedUnique(set))
	}
	slices.SortFunc(out.AnyOf, slices.Compare[[]string])
	out.AnyOf = slices.CompactFunc(out.AnyOf, slices.Equal[[]string])
	return out
}

func sortedUnique(labels []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(labels)))
}

// Key identifies the requirements: 32 hex digits of the SHA-256 of the canonical form.
func (r JobRequires) Key() string {
	text, _ := json.Marshal(r.Canonical()) // strings always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Met reports whether a runner with these labels is suitable. Each label that is exclusive
// ("gpu=a100" for a machine that is reserved for such jobs) has to be asked for.
func (r JobRequires) Met(labels, exclusive []string) bool {
	has := func(set []string) bool {
		return !slices.ContainsFunc(set, func(l string) bool { return !slices.Contains(labels, l) })
	}
	if !has(r.Labels) {
		return false
	}
	met := r.AnyOf == nil
	asked := slices.Clone(r.Labels)
	for _, set := range r.AnyOf {
		if has(set) {
			met, asked = true, append(asked, set...)
		}
	}
	return met && !slices.ContainsFunc(exclusive, func(l string) bool { return !slices.Contains(asked, l) })
}

// String returns the labels, such as "arch=amd64 os=linux (gpu=a100
// gpu=h100)".
func (r JobRequires) String() string {
	text := strings.Join(r.Labels, " ")
	if len(r.AnyOf) > 0 {
		var sets []string
		for _, set := range r.AnyOf {
			sets = append(sets, strings.Join(set, " "))
		}
		text = strings.TrimSpace(text + " (" + strings.Join(sets, " | ") + ")")
	}
	return text
}

// A JobSandbox is the sandbox that the steps run in.
type JobSandbox struct {
	Kind      string  `json:"kind"`    // none, bubblewrap
	Network   string  `json:"network"` // none, host
	MemoryMiB int     `json:"memoryMiB,omitempty"`
	CPUs      float64 `json:"cpus,omitempty"`
}

// A JobArtifactSpec says which files are kept.
type JobArtifactSpec struct {
	Name     string   `json:"name"`
	Paths    []string `json:"paths"`
	When     string   `json:"when"` // success, failure, always
	Required bool     `json:"required,omitempty"`
}

// A JobPriority says how far a job is moved up in the queue.
type JobPriority string

// The priorities are one hour apart: a job of high priority goes before a normal one that
// has waited for less than an hour.
const (
	LowPriority    JobPriority = "low"
	NormalPriority JobPriority = "normal"
	HighPriority   JobPriority = "high"
)

// JobTimeouts limits how long a job may take, in seconds.
type JobTimeouts struct {
	QueueSeconds       int `json:"queueSeconds"`
	RunSeconds         int `json:"runSeconds"`
	CancelGraceSeconds int `json:"cancelGraceSeconds"`
	IdleSeconds        int `json:"idleSeconds,omitempty"` // without output; 0 is no limit
}

// JobRetry says how many attempts a job has, and after which failures it is tried again:
// lost (the runner was silent) and infra (the runner reports that it was not the job's
// fault).
type JobRetry struct {
	MaxAttempts int      `json:"maxAttempts"`
	On          []string `json:"on"`
}

// JobConcurrency limits how many jobs with the same key run at once.
type JobConcurrency struct {
	Key   string `json:"key"`
	Limit int    `json:"limit"`
}

// ConcurrencyUse says how many jobs with a concurrency key are held by runners, and the lowest
// limit among them.
type ConcurrencyUse struct{ Held, LowestLimit int }

// Free returns how many further jobs with that limit may start. Jobs with the same key may
// have different limits: of those that run at once, the lowest counts.
func (u ConcurrencyUse) Free(limit int) int {
	if u.Held > 0 {
		limit = min(limit, u.LowestLimit)
	}
	return max(0, limit-u.Held)
}

// Full reports whether no further job with that limit may start.
func (u ConcurrencyUse) Full(limit int) bool { return u.Free(limit) == 0 }
