package events

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// runners are build machines that take jobs, each with its own stream.
var runners = Noun{
	Name: "runner", Audience: Everybody,
	people: [][]decoder{
		decodersOf[RunnerDrainRequested](),
		decodersOf[RunnerDrainEnded](),
		decodersOf[RunnerCertificateReused](),
		decodersOf[RunnerSuspended](),
		decodersOf[RunnerRevoked](),
	},
	work: [][]decoder{
		decodersOf[RunnerEnrolled](),
		decodersOf[RunnerOnline](),
		decodersOf[RunnerOffline](),
		decodersOf[RunnerJobTaken](),
		decodersOf[RunnerJobReturned](),
		decodersOf[RunnerCertificateRenewed](),
		decodersOf[RunnerCertificateSuperseded](),
		decodersOf[RunnerRetired](),
	},
}

// A RunnerState says what a runner is doing, or why it does nothing.
type RunnerState string

// The states. A runner in a state after RunnerStateDraining takes no jobs; in the last three its
// certificate is not accepted any more.
const (
	RunnerStateEnrolled  RunnerState = "enrolled" // it has never connected
	RunnerStateOnline    RunnerState = "online"
	RunnerStateOffline   RunnerState = "offline"
	RunnerStateDraining  RunnerState = "draining" // connected, but takes no new jobs
	RunnerStateSuspended RunnerState = "suspended"
	RunnerStateRevoked   RunnerState = "revoked"
	RunnerStateRetired   RunnerState = "retired" // it has done as many jobs as it was enrolled for
)

// Barred reports whether the certificate of a runner in state s is refused.
func (s RunnerState) Barred() bool {
	return s == RunnerStateSuspended || s == RunnerStateRevoked || s == RunnerStateRetired
}

// An OfflineReason says why a runner is offline.
type OfflineReason string

// The reasons.
const (
	OfflineWithoutCertificate OfflineReason = "no_certificate"
	OfflineBadCertificate     OfflineReason = "certificate_invalid" // never recorded: it follows from the time
	OfflineDisconnected       OfflineReason = "disconnected"
	OfflineDrained            OfflineReason = "drained"
)

// An Agent is the program on a runner's machine, as it describes itself.
type Agent struct {
	Version   string   `json:"version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Sandboxes []string `json:"sandboxes"` // kinds of sandbox that it offers
}

// A KeyHash identifies a public key: the SHA-256 of its DER form (SubjectPublicKeyInfo).
type KeyHash [sha256.Size]byte

// MarshalText returns h in hex.
func (h KeyHash) MarshalText() ([]byte, error) { return Fingerprint(h).MarshalText() }

// UnmarshalText parses hex.
func (h *KeyHash) UnmarshalText(text []byte) error { return (*Fingerprint)(h).UnmarshalText(text) }

// String returns h in hex.
func (h KeyHash) String() string { return hex.EncodeToString(h[:]) }

// A Certificate describes a certificate that an authority issued. With the authority's key
// and the public key that Key identifies, the certificate can be issued again, byte for
// byte.
type Certificate struct {
	Authority ID        `json:"authorityId"`
	Serial    string    `json:"serial"` // hex, lower case
	Key       KeyHash   `json:"publicKeySha256"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// MachineLabel begins the labels that a machine gives itself. No label of a person does.
const MachineLabel = "machine:"

// serviceLabels begin the labels that only the service sets, from what a machine says that it is and from the
// runner's name.
var serviceLabels = []string{"os=", "arch=", "runner=", "sandbox="}

// IsServiceLabel reports whether only the service sets a label.
func IsServiceLabel(l string) bool {
	return slices.ContainsFunc(serviceLabels, func(p string) bool { return strings.HasPrefix(l, p) })
}

// ServiceLabels returns what begins the labels that only the service sets.
func ServiceLabels() []string { return slices.Clone(serviceLabels) }

// RunnerLabels returns the labels of a runner, sorted: of those in list, what neither a person gave (minted) nor the
// service set is the machine's own, and begins with [MachineLabel]. Events of earlier versions have those without it.
func RunnerLabels(minted, list []string) []string {
	out := make([]string, 0, len(list))
	for _, l := range list {
		if !slices.Contains(minted, l) && !IsServiceLabel(l) && !strings.HasPrefix(l, MachineLabel) {
			l = MachineLabel + l
		}
		out = append(out, l)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// RunnerEnrolled says that a machine became a runner of the workspace.
type RunnerEnrolled struct {
	Runner          ID          `json:"runnerId"`
	Name            string      `json:"name"`
	Enrollment      ID          `json:"enrollmentId"`
	Labels          []string    `json:"labels"`          // see [RunnerLabels]
	MintedLabels    []string    `json:"mintedLabels"`    // those that a person gave, which the machine cannot change
	ExclusiveLabels []string    `json:"exclusiveLabels"` // a job has to ask for each of them explicitly
	Capacity        int         `json:"capacity"`        // jobs at once
	CapacityLimit   int         `json:"capacityLimit"`   // the maximum of Capacity
	Jobs            int         `json:"jobs"`            // how many it takes before it retires; 0 means no limit
	Agent           Agent       `json:"agent"`
	Certificate     Certificate `json:"certificate"`
	SelfNamed       bool        `json:"selfNamed,omitempty"` // the machine chose the name; earlier events do not tell
}

func (RunnerEnrolled) Kind() string              { return "runner.enrolled" }
func (e RunnerEnrolled) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerEnrolled) changes(*Record) []Change {
	return []Change{
		{"state", nil, RunnerStateEnrolled}, {"enrollmentId", nil, e.Enrollment}, {"labels", nil, e.Labels},
		{"exclusiveLabels", nil, e.ExclusiveLabels}, {"capacity", nil, e.Capacity}, {"jobs", nil, e.Jobs},
		{"agent", nil, e.Agent}, {"serial", nil, e.Certificate.Serial}, {"notAfter", nil, e.Certificate.NotAfter},
	}
}

// RunnerOnline says that the runner's agent has connected, or has reconnected with changes.
type RunnerOnline struct {
	Runner   ID       `json:"runnerId"`
	Name     string   `json:"name"`
	Labels   []string `json:"labels"` // all labels from now on; see [RunnerLabels]
	Capacity int      `json:"capacity"`
	Agent    Agent    `json:"agent"`
}

func (RunnerOnline) Kind() string              { return "runner.online" }
func (e RunnerOnline) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerOnline) changes(*Record) []Change {
	return []Change{
		{"state", nil, RunnerStateOnline}, {"labels", nil, e.Labels}, {"capacity", nil, e.Capacity}, {"agent", nil, e.Agent},
	}
}

// RunnerOffline says that the runner is no longer connected.
type RunnerOffline struct {
	Runner ID            `json:"runnerId"`
	Name   string        `json:"name"`
	Reason OfflineReason `json:"reason"`
}

func (RunnerOffline) Kind() string              { return "runner.offline" }
func (e RunnerOffline) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerOffline) changes(*Record) []Change {
	return []Change{{"state", nil, RunnerStateOffline}, {"reason", nil, e.Reason}}
}

// RunnerDrainRequested says that the runner takes no new jobs.
type RunnerDrainRequested struct {
	Runner   ID     `json:"runnerId"`
	Name     string `json:"name"`
	Note     string `json:"note,omitempty"`
	Again    bool   `json:"again,omitempty"`    // it was draining already, and only the note is new
	FromNote string `json:"fromNote,omitempty"` // the note before
}

func (RunnerDrainRequested) Kind() string              { return "runner.drain_requested" }
func (e RunnerDrainRequested) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (e RunnerDrainRequested) changes(*Record) []Change {
	return differing(Change{"draining", e.Again, true}, Change{"note", e.FromNote, e.Note})
}

// RunnerDrainEnded says that the runner may take jobs again.
type RunnerDrainEnded struct {
	Runner ID     `json:"runnerId"`
	Name   string `json:"name"`
}

func (RunnerDrainEnded) Kind() string              { return "runner.drain_ended" }
func (e RunnerDrainEnded) target(r *Record) Target { return Target{"runner", r.Stream, e.Name} }
func (RunnerDrainEnded) changes(*Record) []Change  { return []Change{{"draining", true, false}} }

// RunnerJobTaken says that a runner with a limited number of jobs took one.
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

// RunnerJobReturned says that the runner gave a job back before it began, so that it does
// not count.
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
