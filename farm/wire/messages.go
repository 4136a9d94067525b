package wire

import "time"

// A Type names a message.
type Type string

// The types, those of the runner first.
const (
	TypeHello     Type = "hello"
	TypeHeartbeat Type = "heartbeat"
	TypeAccept    Type = "job.accept"
	TypeDecline   Type = "job.decline"
	TypeEvent     Type = "job.event"
	TypeGoodbye   Type = "goodbye"

	TypeWelcome      Type = "welcome"
	TypeHeartbeatAck Type = "heartbeat.ack"
	TypeAssign       Type = "job.assign"
	TypeAck          Type = "job.ack"
	TypeCancel       Type = "job.cancel"
	TypeStop         Type = "job.stop"
	TypeClosing      Type = "server.closing"
	TypeUpdate       Type = "update"
	TypeError        Type = "error"

	TypeDrain Type = "drain" // of both sides
)

// Hello is the first message of a connection: what the runner is, and what it holds.
type Hello struct {
	Version    string   `json:"version"` // of the runner
	OS         string   `json:"os"`
	Arch       string   `json:"arch"`
	Capacity   int      `json:"capacity"` // jobs at once
	Labels     []string `json:"labels,omitempty"`
	Sandboxes  []string `json:"sandboxes,omitempty"`
	BootID     string   `json:"bootId,omitempty"`
	SpoolBytes int64    `json:"spoolBytes,omitempty"`
	Draining   bool     `json:"draining,omitempty"`
	Held       []Held   `json:"held,omitempty"`
}

// Held is a job that a runner has in its spool: one that it works on, or whose last
// messages were not acknowledged.
type Held struct {
	Job   string `json:"job"`
	Epoch int    `json:"epoch"`
	Sent  int64  `json:"sent,omitempty"`  // the last number that it has given
	State string `json:"state,omitempty"` // assigned, running, finished
}

// Heartbeat says that the runner lives and which jobs it works on. Only their leases
// are renewed: a job whose Assign was lost is in no heartbeat, and goes elsewhere.
type Heartbeat struct {
	Seq      int64   `json:"seq"`
	Free     int     `json:"free"` // jobs that it could take
	Load     float64 `json:"load,omitempty"`
	DiskFree int64   `json:"diskFree,omitempty"` // bytes
	Memory   int64   `json:"memory,omitempty"`   // bytes that are available
	Held     []Held  `json:"held,omitempty"`
	Jobs     []Usage `json:"jobs,omitempty"`
}

// Usage is what a job takes at the moment.
type Usage struct {
	Job      string `json:"job"`
	CPUMs    int64  `json:"cpuMs"`
	RSSBytes int64  `json:"rssBytes"`
}

// Accept says that the runner begins a job.
type Accept struct{}

// Decline says that it does not. The job goes to another one, and this has cost none of its attempts.
type Decline struct {
	Reason string `json:"reason"` // busy, unsupported, disk_full, draining
	Text   string `json:"text,omitempty"`
}

// An Event says what became of a job. Kind says which of the fields it has.
type Event struct {
	Kind string `json:"kind"`           // started, step.started, step.finished, notice, finished
	Step int    `json:"step,omitempty"` // its index, 0 the first
	Name string `json:"name,omitempty"` // of the step
	Text string `json:"text,omitempty"` // of a notice

	Outcome          string    `json:"outcome,omitempty"` // succeeded, failed, cancelled, timed_out, infra
	Reason           string    `json:"reason,omitempty"`  // why, where the exit code does not say it
	ExitCode         *int      `json:"exitCode,omitempty"`
	Signal           string    `json:"signal,omitempty"`
	SignalReason     string    `json:"signalReason,omitempty"` // cancel, step_timeout, run_timeout, agent_stop, fenced, oom
	StartedAt        time.Time `json:"startedAt,omitzero"`
	FinishedAt       time.Time `json:"finishedAt,omitzero"`
	CPUMs            int64     `json:"cpuMs,omitempty"`
	MaxRSSBytes      int64     `json:"maxRssBytes,omitempty"`
	Log              *LogSum   `json:"log,omitempty"`              // of a finished
	Artifacts        int       `json:"artifacts,omitempty"`        // files that the runner will upload
	MissingArtifacts []string  `json:"missingArtifacts,omitempty"` // names of required ones of which there is no file
}

// The kinds of events.
const (
	EventStarted      = "started"
	EventStepStarted  = "step.started"
	EventStepFinished = "step.finished"
	EventNotice       = "notice"
	EventFinished     = "finished"
)

// LogSum is what a runner says of the log that it has sent.
type LogSum struct {
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"` // in hex, of all bytes
	Truncated bool   `json:"truncated,omitempty"`
}

// Goodbye says that the runner ends, after a drain: it holds nothing.
type Goodbye struct{}

// Welcome answers a Hello.
type Welcome struct {
	Connection       string    `json:"connId"`
	Runner           string    `json:"runnerId"`
	ServerTime       time.Time `json:"serverTime"`
	HeartbeatSeconds int       `json:"heartbeatSeconds"`
	LeaseSeconds     int       `json:"leaseSeconds"`
	Draining         bool      `json:"draining,omitempty"` // a person asked for it
	Limits           Limits    `json:"limits"`
	Held             []Verdict `json:"held,omitempty"` // on each job that the runner named
}

// Limits are those that a runner has to keep to.
type Limits struct {
	MaxMessage          int   `json:"maxMessage"`
	LogBytesPerJob      int64 `json:"logBytesPerJob"`
	WindowMessages      int   `json:"windowMsgs"`
	WindowBytes         int64 `json:"windowBytes"`
	ArtifactMaxJobBytes int64 `json:"artifactMaxJobBytes"`
}

// A Verdict says what a runner has to do with a job that it holds.
type Verdict struct {
	Job          string `json:"job"`
	Epoch        int    `json:"epoch"`
	Verdict      string `json:"verdict"`                // continue, stop, cancel, done
	Acked        int64  `json:"acked"`                  // all up to this number is stored
	GraceSeconds int    `json:"graceSeconds,omitempty"` // of a cancel
	Artifacts    bool   `json:"artifacts,omitempty"`    // of a done: they are still awaited
}

// The verdicts.
const (
	Continue  = "continue"
	StopJob   = "stop"   // it is somebody else's, or nobody's: kill it, and drop what was spooled
	CancelJob = "cancel" // as a Cancel
	Done      = "done"   // all of it is stored: drop what was spooled, but for artifacts
)

// HeartbeatAck answers a Heartbeat. The leases of the jobs that it lists are good for
// LeaseSeconds from when that was sent, but for those that have a verdict here.
type HeartbeatAck struct {
	Seq        int64     `json:"seq"`
	ServerTime time.Time `json:"serverTime"`
	Held       []Verdict `json:"held,omitempty"`
}

// Assign gives a job to the runner. It has AcceptLimit to answer.
type Assign struct {
	Name         string            `json:"name"`
	Attempt      int               `json:"attempt"`
	Steps        []Step            `json:"steps"`
	Sandbox      Sandbox           `json:"sandbox"`
	Secrets      map[string]string `json:"secrets,omitempty"` // in no log line, and never on a disk
	Source       *Source           `json:"source,omitempty"`
	Artifacts    []Artifact        `json:"artifacts,omitempty"`
	RunSeconds   int               `json:"runSeconds"`
	GraceSeconds int               `json:"graceSeconds"`
	LeaseSeconds int               `json:"leaseSeconds"`
	Env          map[string]string `json:"env,omitempty"` // of every step: what the job is called
}

// A Step is a command of a job.
type Step struct {
	Name           string            `json:"name"`
	Run            string            `json:"run"`
	Shell          string            `json:"shell,omitempty"` // sh or bash; sh if empty
	Env            map[string]string `json:"env,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"` // 0: that of the job
}

// A Sandbox is what a job runs in.
type Sandbox struct {
	Kind      string  `json:"kind"`    // none, bubblewrap
	Network   string  `json:"network"` // none, host
	MemoryMiB int     `json:"memoryMiB,omitempty"`
	CPUs      float64 `json:"cpus,omitempty"`
}

// A Source is what is checked out before the first step.
type Source struct {
	URL    string `json:"url"`
	Commit string `json:"commit,omitempty"` // 40 or 64 hex digits
	Ref    string `json:"ref,omitempty"`
}

// An Artifact says which files of the working directory are kept.
type Artifact struct {
	Name     string   `json:"name"`
	Paths    []string `json:"paths"`
	When     string   `json:"when"` // success, failure, always
	Required bool     `json:"required,omitempty"`
}

// Ack says that all up to Upto is stored.
type Ack struct {
	Upto int64 `json:"upto"`
}

// Cancel asks a runner to end a job: politely, and after GraceSeconds by force.
type Cancel struct {
	GraceSeconds int    `json:"graceSeconds"`
	Reason       string `json:"reason,omitempty"`
}

// Stop tells a runner that a job is not its own: it kills it at once and drops what was spooled.
type Stop struct {
	Reason string `json:"reason,omitempty"`
}

// Drain asks for, or tells of, taking no more jobs.
type Drain struct {
	Note string `json:"note,omitempty"`
	End  bool   `json:"end,omitempty"` // of a drain that a person takes back
}

// Closing says that the service ends and when to come again.
type Closing struct {
	ReconnectAfterMs int64 `json:"reconnectAfterMs"`
}

// Update tells of a newer version of the runner.
type Update struct {
	Version string `json:"version"`
}

// An Error tells what was wrong with a message. After one that is fatal the connection is closed.
type Error struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Expected int64  `json:"expected,omitempty"` // of a gap: the number that has to come next
	Fatal    bool   `json:"fatal,omitempty"`
}

// The codes of errors.
const (
	CodeGap       = "gap"
	CodeMalformed = "malformed"
	CodeFlood     = "flood"
	CodeTooLarge  = "too_large"
	CodeUnknown   = "unknown_job"
)

// Type says which message it is.
func (Hello) Type() Type { return TypeHello }

// Type says which message it is.
func (Heartbeat) Type() Type { return TypeHeartbeat }

// Type says which message it is.
func (Accept) Type() Type { return TypeAccept }

// Type says which message it is.
func (Decline) Type() Type { return TypeDecline }

// Type says which message it is.
func (Event) Type() Type { return TypeEvent }

// Type says which message it is.
func (Goodbye) Type() Type { return TypeGoodbye }

// Type says which message it is.
func (Welcome) Type() Type { return TypeWelcome }

// Type says which message it is.
func (HeartbeatAck) Type() Type { return TypeHeartbeatAck }

// Type says which message it is.
func (Assign) Type() Type { return TypeAssign }

// Type says which message it is.
func (Ack) Type() Type { return TypeAck }

// Type says which message it is.
func (Cancel) Type() Type { return TypeCancel }

// Type says which message it is.
func (Stop) Type() Type { return TypeStop }

// Type says which message it is.
func (Drain) Type() Type { return TypeDrain }

// Type says which message it is.
func (Closing) Type() Type { return TypeClosing }

// Type says which message it is.
func (Update) Type() Type { return TypeUpdate }

// Type says which message it is.
func (Error) Type() Type { return TypeError }
