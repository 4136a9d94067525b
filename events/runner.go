package events

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// runners are build machines that take jobs, each with a stream.
var runners = Noun{
	Name: "runner", Audience: Everybody,
	kinds: [][]decoder{
		of[RunnerEnrolled](),
		of[RunnerOnline](),
		of[RunnerOffline](),
		of[RunnerDrainRequested](),
		of[RunnerDrainEnded](),
		of[RunnerJobTaken](),
		of[RunnerJobReturned](),
		of[RunnerCertificateRenewed](),
		of[RunnerCertificateSuperseded](),
		of[RunnerCertificateReused](),
		of[RunnerSuspended](),
		of[RunnerRevoked](),
		of[RunnerRetired](),
	},
}

// A RunnerState says what a runner is doing, or why it does nothing.
type RunnerState string

// The states. Those after RunnerDraining take no job; the last three are the end of
// what the runner's certificate opens.
const (
	RunnerIsEnrolled  RunnerState = "enrolled" // and has never connected
	RunnerIsOnline    RunnerState = "online"
	RunnerIsOffline   RunnerState = "offline"
	RunnerIsDraining  RunnerState = "draining" // connected, and takes no more jobs
	RunnerIsSuspended RunnerState = "suspended"
	RunnerIsRevoked   RunnerState = "revoked"
	RunnerIsRetired   RunnerState = "retired" // its jobs are done
)

// Barred reports whether the certificate of a runner in state s opens nothing.
func (s RunnerState) Barred() bool {
	return s == RunnerIsSuspended || s == RunnerIsRevoked || s == RunnerIsRetired
}

// An OfflineReason says why a runner is offline.
type OfflineReason string

// The reasons.
const (
	OfflineWithoutCertificate OfflineReason = "no_certificate"
	OfflineBadCertificate     OfflineReason = "certificate_invalid"
	OfflineDisconnected       OfflineReason = "disconnected"
	OfflineDrained            OfflineReason = "drained"
	OfflineTooOld             OfflineReason = "version_too_old"
)

// An Agent is the program on a runner's machine, as it says of itself.
type Agent struct {
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Sandboxes []string `json:"sandboxes"` // kinds of sandboxes that it offers
}

// A KeyHash names a public key: the SHA-256 of its DER form (SubjectPublicKeyInfo).
type KeyHash [sha256.Size]byte

// MarshalText returns h in hex.
func (h KeyHash) MarshalText() ([]byte, error) { return Fingerprint(h).MarshalText() }

// UnmarshalText reads hex.
func (h *KeyHash) UnmarshalText(text []byte) error { return (*Fingerprint)(h).UnmarshalText(text) }

// String returns h in hex.
func (h KeyHash) String() string { return hex.EncodeToString(h[:]) }

// A Certificate is what is known of one that an authority issued. With the authority's
// key, and the public key that Key names, it can be issued again, byte for byte.
type Certificate struct {
	Authority ID        `json:"authorityId"`
	Serial    string    `json:"serial"` // hex, lower case
	Key       KeyHash   `json:"publicKeySha256"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// RunnerEnrolled says that a machine became a runner of the workspace.
type RunnerEnrolled struct {
	Runner          ID          `json:"runnerId"`
	Name            string      `json:"name"`
	Enrollment      ID          `json:"enrollmentId"`
	Labels          []string    `json:"labels"`          // sorted; os=, arch= and runner= among them
	MintedLabels    []string    `json:"mintedLabels"`    // of them those that a person gave: the machine cannot change them
	ExclusiveLabels []string    `json:"exclusiveLabels"` // a job has to ask for each of them
	Capacity        int         `json:"capacity"`        // jobs at once
	CapacityLimit   int         `json:"capacityLimit"`   // what Capacity never exceeds
	Jobs            int         `json:"jobs"`            // how many it takes before it retires; 0 is no bound
	Agent           Agent       `json:"agent"`
	Certificate     Certificate `json:"certificate"`
}

func (RunnerEnrolled) Kind() string              { return "runner.enrolled" }
func (e RunnerEnrolled) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerEnrolled) changes(*Record) []Change {
	return []Change{
		{"state", nil, RunnerIsEnrolled}, {"enrollmentId", nil, e.Enrollment}, {"labels", nil, e.Labels},
		{"exclusiveLabels", nil, e.ExclusiveLabels}, {"capacity", nil, e.Capacity}, {"jobs", nil, e.Jobs},
		{"agent", nil, e.Agent}, {"serial", nil, e.Certificate.Serial}, {"notAfter", nil, e.Certificate.NotAfter},
	}
}

// RunnerOnline says that the runner's agent connected, or connected with something
// about it changed.
type RunnerOnline struct {
	Runner   ID       `json:"runnerId"`
	Name     string   `json:"name"`
	Labels   []string `json:"labels"` // all that count from now on, sorted
	Capacity int      `json:"capacity"`
	Agent    Agent    `json:"agent"`
}

func (RunnerOnline) Kind() string              { return "runner.online" }
func (e RunnerOnline) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerOnline) changes(*Record) []Change {
	return []Change{
		{"state", nil, RunnerIsOnline}, {"labels", nil, e.Labels}, {"capacity", nil, e.Capacity}, {"agent", nil, e.Agent},
	}
}

// RunnerOffline says that the runner was not heard of any more.
type RunnerOffline struct {
	Runner ID            `json:"runnerId"`
	Name   string        `json:"name"`
	Reason OfflineReason `json:"reason"`
}

func (RunnerOffline) Kind() string              { return "runner.offline" }
func (e RunnerOffline) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerOffline) changes(*Record) []Change {
	return []Change{{"state", nil, RunnerIsOffline}, {"reason", nil, e.Reason}}
}

// RunnerDrainRequested says that the runner is to take no more jobs.
type RunnerDrainRequested struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Note   string `json:"note,omitempty"`
}

func (RunnerDrainRequested) Kind() string              { return "runner.drain_requested" }
func (e RunnerDrainRequested) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerDrainRequested) changes(*Record) []Change {
	return append([]Change{{"draining", false, true}}, differing(Change{"note", "", e.Note})...)
}

// RunnerDrainEnded says that the runner may take jobs again.
type RunnerDrainEnded struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
}

func (RunnerDrainEnded) Kind() string              { return "runner.drain_ended" }
func (e RunnerDrainEnded) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (RunnerDrainEnded) changes(*Record) []Change  { return []Change{{"draining", true, false}} }

// RunnerJobTaken says that a runner which takes only so many jobs took one.
type RunnerJobTaken struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Job    ID     `json:"jobId"`
	Left   int    `json:"jobsLeft"`
}

func (RunnerJobTaken) Kind() string              { return "runner.job_taken" }
func (e RunnerJobTaken) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerJobTaken) changes(*Record) []Change {
	return []Change{{"jobId", nil, e.Job}, {"jobsLeft", e.Left + 1, e.Left}}
}

// RunnerJobReturned says that it gave the job back before it began: that one does not count.
type RunnerJobReturned struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
	Job    ID     `json:"jobId"`
	Left   int    `json:"jobsLeft"`
}

func (RunnerJobReturned) Kind() string              { return "runner.job_returned" }
func (e RunnerJobReturned) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerJobReturned) changes(*Record) []Change {
	return []Change{{"jobId", e.Job, nil}, {"jobsLeft", e.Left - 1, e.Left}}
}
