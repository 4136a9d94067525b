package wire

// A Type names a message.
type Type string

// The message types, those sent by the runner first.
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
	TypeError        Type = "error"

	TypeDrain Type = "drain" // sent by both sides
)

// Hello is the first message of a connection: it describes the runner and lists the jobs that it
// holds.
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

// Held is a job that a runner has in its spool: it runs, or its last messages are not acknowledged.
type Held struct {
	Job   string `json:"job"`
	Epoch int    `json:"epoch"`
	Sent  int64  `json:"sent,omitempty"`  // number of the last message in the spool
	State string `json:"state,omitempty"` // assigned, running, finished
}

// Heartbeat shows that the runner is alive and lists the jobs that it works on. Only their leases
// are renewed: a job whose Assign was lost is in no heartbeat, so another runner gets it.
type Heartbeat struct {
	Seq      int64   `json:"seq"`
	Free     int     `json:"free"` // free slots
	Load     float64 `json:"load,omitempty"`
	DiskFree int64   `json:"diskFree,omitempty"` // bytes
	Memory   int64   `json:"memory,omitempty"`   // available bytes
	Held     []Held  `json:"held,omitempty"`
	Jobs     []Usage `json:"jobs,omitempty"`
}

// Usage is the resource usage of a running job.
type Usage struct {
	Job      string `json:"job"`
	CPUMs    int64  `json:"cpuMs"`
	RSSBytes int64  `json:"rssBytes"`
}

// Accept says that the runner takes a job. It begins the job when the service has acknowledged that.
type Accept struct{}

// Decline says that the runner does not take a job. The job goes to another runner, which does not
// count as an attempt.
type Decline struct {
	Reason string `json:"reason"` // busy, unsupported, disk_full, draining
	Text   string `json:"text,omitempty"`
}

// An Event reports progress of a job. Kind determines which fields are set.
type Event struct {
	Kind string `json:"kind"`           // started, checked_out, step.started, step.finished, notice, finished
	Step int    `json:"step,omitempty"` // index, from 0
	Name string `json:"name,omitempty"` // of the step
	Text string `json:"text,omitempty"` // of a notice

	Commit string `json:"commit,omitempty"` // of checked_out: 40 or 64 hex digits

	Outcome          string   `json:"outcome,omitempty"` // succeeded, failed, cancelled, timed_out, infra
	Reason           string   `json:"reason,omitempty"`  // set where the exit code does not say why
	ExitCode         *int     `json:"exitCode,omitempty"`
	Signal           string   `json:"signal,omitempty"`
	SignalReason     string   `json:"signalReason,omitempty"` // cancel, step_timeout, run_timeout, idle, outcome, agent_stop, fenced, oom, disk_limit
	StartedAt        Time     `json:"startedAt,omitzero"`
	FinishedAt       Time     `json:"finishedAt,omitzero"`
	CPUMs            int64    `json:"cpuMs,omitempty"`
	MaxRSSBytes      int64    `json:"maxRssBytes,omitempty"`
	Log              *LogSum  `json:"log,omitempty"`              // of finished
	Artifacts        int      `json:"artifacts,omitempty"`        // files that the runner will upload
	MissingArtifacts []string `json:"missingArtifacts,omitempty"` // names of required artifacts without a file

	LeftOut      []LeftOut `json:"leftOut,omitempty"`      // what artifacts match and is not uploaded, the first MaxLeftOut
	LeftOutCount int       `json:"leftOutCount,omitempty"` // all of it
}

// LeftOut is a file or link that is not uploaded, though an artifact matches it.
type LeftOut struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// MaxLeftOut is how many of those that are left out a job's end names.
const MaxLeftOut = 20

// Values of LeftOut.Reason.
const (
	LeftOutPath       = "path_refused"   // see PathProblem
	LeftOutCollision  = "path_collision" // some system takes it for another file
	LeftOutUnreadable = "unreadable"
	LeftOutDeep       = "too_deep"
	LeftOutSpecial    = "not_a_file"    // a pipe, socket or device
	LeftOutOutside    = "link_outside"  // it leads out of the working directory, or into .git
	LeftOutBroken     = "link_broken"   // it leads nowhere
	LeftOutLoop       = "link_loop"     // it leads to a folder that it is in
	LeftOutLinks      = "link_too_many" // too much is behind links
	LeftOutOutFolder  = "link_not_followed"
)

// Values of Event.Kind.
const (
	EventStarted      = "started"
	EventCheckedOut   = "checked_out" // of a source that names no commit: which one the ref is
	EventStepStarted  = "step.started"
	EventStepFinished = "step.finished"
	EventNotice       = "notice"
	EventFinished     = "finished"
)

// LogSum is the runner's summary of the log that it has sent.
type LogSum struct {
	Bytes     int64  `json:"bytes"`
	Chunks    int64  `json:"chunks"`
	SHA256    string `json:"sha256"` // in hex, of all bytes
	Truncated bool   `json:"truncated,omitempty"`
}

// Goodbye says that the runner exits after a drain. It holds no jobs.
type Goodbye struct{}

// Welcome answers a Hello.
type Welcome struct {
	Connection       string    `json:"connId"`
	Runner           string    `json:"runnerId"`
	ServerTime       Time      `json:"serverTime"`
	HeartbeatSeconds int       `json:"heartbeatSeconds"`
	LeaseSeconds     int       `json:"leaseSeconds"`
	Draining         bool      `json:"draining,omitempty"` // a person asked for it
	Limits           Limits    `json:"limits"`
	Held             []Verdict `json:"held,omitempty"` // on each job in the Hello
}

// Limits are the limits that a runner has to keep.
type Limits struct {
	MaxMessage          int   `json:"maxMessage"`
	LogBytesPerJob      int64 `json:"logBytesPerJob"`
	WindowMessages      int   `json:"windowMsgs"`
	WindowBytes         int64 `json:"windowBytes"`
	ArtifactMaxJobBytes int64 `json:"artifactMaxJobBytes"`
}

// A Verdict says what a runner must do with a job that it holds.
type Verdict struct {
	Job          string `json:"job"`
	Epoch        int    `json:"epoch"`
	Verdict      string `json:"verdict"`                // continue, stop, cancel, done
	Acked        int64  `json:"acked"`                  // everything up to this number is stored
	GraceSeconds int    `json:"graceSeconds,omitempty"` // of a cancel
	Artifacts    bool   `json:"artifacts,omitempty"`    // of done: they are not uploaded yet
}

// Values of Verdict.Verdict.
const (
	Continue  = "continue"
	StopJob   = "stop"   // the job is not this runner's: kill it and drop its spool
	CancelJob = "cancel" // the same as a Cancel
	Done      = "done"   // everything is stored: drop the spool, except artifacts
)

// HeartbeatAck answers a Heartbeat. It renews the leases of the listed jobs for LeaseSeconds from
// when the Heartbeat was sent, except those of jobs that have a verdict here.
type HeartbeatAck struct {
	Seq        int64     `json:"seq"`
	ServerTime Time      `json:"serverTime"`
	Held       []Verdict `json:"held,omitempty"`
}

// Assign gives a job to the runner, which must answer within AcceptTimeout.
type Assign struct {
	Name         string            `json:"name"`
	Attempt      int               `json:"attempt"`
	Steps        []Step            `json:"steps"`
	Sandbox      Sandbox           `json:"sandbox"`
	Secrets      map[string]string `json:"secrets,omitempty"` // never logged or written to disk
	Source       *Source           `json:"source,omitempty"`
	Artifacts    []Artifact        `json:"artifacts,omitempty"`
	RunSeconds   int               `json:"runSeconds"`
	GraceSeconds int               `json:"graceSeconds"`
	LeaseSeconds int               `json:"leaseSeconds"`
	Env          map[string]string `json:"env,omitempty"`         // for every step; names the job
	IdleSeconds  int               `json:"idleSeconds,omitempty"` // of a step without output, after which the job is ended; 0 is no limit
	Input        []byte            `json:"input,omitempty"`       // what the steps find as the file task.json in $SVC_IN
	Collect      bool              `json:"collect,omitempty"`     // keep what the steps change in the checkout, see [OutFolder]
}

// OutFolder is the folder in the working directory of a job with Collect, $SVC_OUT, that is no part of
// its changes. The runner stores there, as ChangeFile, the difference between the checked out commit and
// the working directory. A step that has written OutcomeFile has done its work. Secrets of the job are masked in
// all files there; if the change has one, RefusedFile says so instead.
const (
	OutFolder   = ".svc-out"
	ChangeFile  = "change.diff"
	OutcomeFile = "outcome.json"
	RefusedFile = "change.refused"
)

// A Step is one command of a job.
type Step struct {
	Name           string            `json:"name"`
	Run            string            `json:"run"`
	Shell          string            `json:"shell,omitempty"` // sh or bash; sh if empty
	Env            map[string]string `json:"env,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"` // 0: only the job's timeout applies
}

// A Sandbox says how a job's steps are isolated.
type Sandbox struct {
	Kind      string  `json:"kind"`    // none, bubblewrap
	Network   string  `json:"network"` // none, host
	MemoryMiB int     `json:"memoryMiB,omitempty"`
	CPUs      float64 `json:"cpus,omitempty"`
}

// A Source is what to check out before the first step.
type Source struct {
	URL    string `json:"url"`
	Commit string `json:"commit,omitempty"` // 40 or 64 hex digits
	Ref    string `json:"ref,omitempty"`
}

// An Artifact selects files of the working directory to upload.
type Artifact struct {
	Name     string   `json:"name"`
	Paths    []string `json:"paths"`
	When     string   `json:"when"` // success, failure, always
	Required bool     `json:"required,omitempty"`
}

// Ack says that the runner's accept of the job is stored, and every message up to Upto.
type Ack struct {
	Upto int64 `json:"upto"`
}

// Cancel asks a runner to end a job: with SIGTERM, and with SIGKILL after GraceSeconds.
type Cancel struct {
	GraceSeconds int    `json:"graceSeconds"`
	Reason       string `json:"reason,omitempty"`
}

// Stop says that a job is not the runner's. The runner kills it at once and drops its spool.
type Stop struct {
	Reason string `json:"reason,omitempty"`
}

// Drain asks the runner to take no more jobs, or says that it takes no more.
type Drain struct {
	Note string `json:"note,omitempty"`
	End  bool   `json:"end,omitempty"` // the drain is over
}

// Closing says that the service process shuts down, and when to reconnect.
type Closing struct {
	ReconnectAfterMs int64 `json:"reconnectAfterMs"`
}

// An Error says what is wrong with a message. After a fatal one the connection is closed.
type Error struct {
	Code     string `json:"code"`
	Message  string `json:"message"`
	Expected int64  `json:"expected,omitempty"` // of a gap: the next number
	Fatal    bool   `json:"fatal,omitempty"`
}

// Values of Error.Code.
const (
	CodeGap       = "gap"
	CodeMalformed = "malformed"
	CodeFlood     = "flood"
)

// Type implements [Message].
func (Hello) Type() Type { return TypeHello }

// Type implements [Message].
func (Heartbeat) Type() Type { return TypeHeartbeat }

// Type implements [Message].
func (Accept) Type() Type { return TypeAccept }

// Type implements [Message].
func (Decline) Type() Type { return TypeDecline }

// Type implements [Message].
func (Event) Type() Type { return TypeEvent }

// Type implements [Message].
func (Goodbye) Type() Type { return TypeGoodbye }

// Type implements [Message].
func (Welcome) Type() Type { return TypeWelcome }

// Type implements [Message].
func (HeartbeatAck) Type() Type { return TypeHeartbeatAck }

// Type implements [Message].
func (Assign) Type() Type { return TypeAssign }

// Type implements [Message].
func (Ack) Type() Type { return TypeAck }

// Type implements [Message].
func (Cancel) Type() Type { return TypeCancel }

// Type implements [Message].
func (Stop) Type() Type { return TypeStop }

// Type implements [Message].
func (Drain) Type() Type { return TypeDrain }

// Type implements [Message].
func (Closing) Type() Type { return TypeClosing }

// Type implements [Message].
func (Error) Type() Type { return TypeError }
