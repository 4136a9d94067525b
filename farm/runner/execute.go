package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"svc/farm/runner/mask"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// An assignment is the first line on the standard input of a job's process.
type assignment struct {
	Job           string      `json:"job"`
	Epoch         int         `json:"epoch"`
	Spec          wire.Assign `json:"spec"`
	Dir           string      `json:"dir"`   // of the job, to be made and removed
	Files         string      `json:"files"` // the folder that takes artifacts, to be made
	Program       string      `json:"program"`
	Mounts        []string    `json:"mounts,omitempty"`
	LogLimit      int64       `json:"logLimit"`
	ArtifactLimit int64       `json:"artifactLimit"`
	GitProtocols  string      `json:"gitProtocols"`
}

// An order is each line after it.
type order struct {
	Reason string        `json:"reason"`
	Grace  time.Duration `json:"grace"`
	Now    bool          `json:"now"` // kill
}

// Reasons for which a job is stopped, as wire.Event.SignalReason has them.
const (
	becauseCancel      = "cancel"
	becauseStepTimeout = "step_timeout"
	becauseRunTimeout  = "run_timeout"
	becauseAgentStop   = "agent_stop"
	becauseFenced      = "fenced"
)

// Outcomes of a job.
const (
	succeeded = "succeeded"
	failed    = "failed"
	cancelled = "cancelled"
	timedOut  = "timed_out"
	infra     = "infra" // the machine's fault, not the job's
)

// An execution is a job in its process.
type execution struct {
	assignment
	report *reporter
	out    *output
	hidden *mask.Set
	job    *sandbox.Job
	began  time.Time
	ctx    context.Context // done: kill
	polite context.Context // done: end

	cpu    time.Duration
	maxRSS int64
}

// Execute runs the job that it is told on in, says what happens on out, and returns when
// nothing of the job is left but its artifacts. It is for a process of its own.
func Execute(in io.Reader, out io.Writer) error {
	expendable()
	if err := sandbox.Adopt(); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	x := &execution{report: &reporter{to: out}, began: time.Now()}
	if err := json.Unmarshal(text, &x.assignment); err != nil {
		return errors.New("read what to run: malformed") // the error may quote a secret
	}
	ctx, kill := context.WithCancelCause(context.Background())
	polite, end := context.WithCancelCause(ctx)
	defer kill(nil)
	x.ctx, x.polite = ctx, polite
	go obey(lines, end, kill) // ends with its input, at the latest with the process
	return x.run()
}

// obey hands on orders until there are no more, which is the end of the supervisor. Whichever
// of them leaves the least grace counts.
func obey(lines *bufio.Reader, end, kill context.CancelCauseFunc) {
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			kill(&sandbox.Stop{Reason: becauseAgentStop})
			return
		}
		var o order
		if json.Unmarshal(text, &o) != nil {
			continue
		}
		stop := &sandbox.Stop{Reason: o.Reason, Grace: o.Grace}
		if o.Now {
			kill(stop)
		} else {
			end(stop)
			time.AfterFunc(o.Grace, func() { kill(stop) })
		}
	}
}

// run says started and finished, and what is between.
func (x *execution) run() (err error) {
	x.out = newOutput(x.report, x.LogLimit)
	x.hidden = mask.New(append(slices.Collect(maps.Values(x.Spec.Secrets)), sourceSecrets(x.Spec.Source)...)...)
	if err := x.report.event(wire.Event{Kind: wire.EventStarted, StartedAt: x.began.UTC()}); err != nil {
		return err
	}
	var end wire.Event
	x.job, err = sandbox.New(x.config())
	if err == nil {
		end = x.steps()
		end = x.collect(end)
		err = x.job.Remove()
	}
	if err != nil && end.Outcome == "" {
		end = wire.Event{Outcome: infra, Reason: "sandbox_failed"}
		x.notice(err.Error())
	}
	sum := x.out.close()
	end.Kind, end.Log = wire.EventFinished, &sum
	end.StartedAt, end.FinishedAt = x.began.UTC(), time.Now().UTC()
	end.CPUMs, end.MaxRSSBytes = x.cpu.Milliseconds(), x.maxRSS
	return x.report.event(end)
}

func (x *execution) config() sandbox.Config {
	s := x.Spec.Sandbox
	return sandbox.Config{
		Name: x.name(), Dir: x.Dir, Program: x.Program, Kind: s.Kind, Network: s.Network == "host", Mounts: x.Mounts,
		Limits: sandbox.Limits{MemoryBytes: int64(s.MemoryMiB) << 20, CPUs: s.CPUs},
	}
}

func (x *execution) name() string { return key{x.Job, x.Epoch}.name() }

func (k key) name() string { return k.job + "." + strconv.Itoa(k.epoch) }

// steps checks out and runs one step after the other until one fails.
func (x *execution) steps() wire.Event {
	polite, end := x.polite, context.CancelFunc(func() {})
	if s := x.Spec.RunSeconds; s > 0 {
		stop := &sandbox.Stop{Reason: becauseRunTimeout, Grace: seconds(x.Spec.GraceSeconds)}
		polite, end = context.WithTimeoutCause(polite, seconds(s), stop)
	}
	defer end()
	if x.Spec.Source != nil {
		if e := x.checkout(polite); e.Outcome != succeeded {
			return e
		}
	}
	for i, s := range x.Spec.Steps {
		if e := x.step(polite, i, s); e.Outcome != succeeded {
			return e
		}
	}
	return wire.Event{Outcome: succeeded, ExitCode: new(int)}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// step runs one, and returns what the job's end would be by it.
func (x *execution) step(polite context.Context, index int, s wire.Step) wire.Event {
	if stopped := context.Cause(polite); stopped != nil {
		return ended(sandbox.Result{Stopped: stopOf(stopped)}, false)
	}
	began := time.Now()
	// Where this fails the end of the job fails by the same, and is told.
	_ = x.report.event(wire.Event{Kind: wire.EventStepStarted, Step: index, Name: s.Name, StartedAt: began.UTC()})
	if s.TimeoutSeconds > 0 {
		stop := &sandbox.Stop{Reason: becauseStepTimeout, Grace: seconds(x.Spec.GraceSeconds)}
		var end context.CancelFunc
		polite, end = context.WithTimeoutCause(polite, seconds(s.TimeoutSeconds), stop)
		defer end()
	}
	r, err := x.in(polite, sandbox.Command{Args: shell(s), Env: x.env(s)})
	end := ended(r, true)
	if err != nil {
		x.notice(fmt.Sprintf("step %s: %v", s.Name, err))
		end = wire.Event{Outcome: infra, Reason: "sandbox_failed"}
	}
	over := end
	over.Kind, over.Step, over.Name, over.StartedAt, over.FinishedAt = wire.EventStepFinished, index, s.Name, began.UTC(), time.Now().UTC()
	over.CPUMs, over.MaxRSSBytes = r.CPU.Milliseconds(), r.MaxRSS
	if over.Outcome == infra { // the protocol has no such end of a step, only of a job
		if over.Outcome = failed; r.Stopped != nil {
			over.Outcome = cancelled
		}
	}
	_ = x.report.event(over) // the same
	return end
}

// in runs a command with its output masked.
func (x *execution) in(polite context.Context, c sandbox.Command) (sandbox.Result, error) {
	masked := x.hidden.NewWriter(x.out)
	c.Output = masked
	r, err := x.job.Run(x.ctx, polite, c)
	if closed := masked.Close(); err == nil {
		err = closed
	}
	x.out.flush()
	x.cpu += r.CPU
	x.maxRSS = max(x.maxRSS, r.MaxRSS)
	return r, err
}

func shell(s wire.Step) []string {
	if s.Shell == "bash" {
		return []string{"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run}
	}
	return []string{"sh", "-e", "-c", s.Run}
}

// env are the variables of a step: what the sandbox says, the job, its secrets, the step.
func (x *execution) env(s wire.Step) []string {
	all := map[string]string{}
	for _, from := range []map[string]string{x.Spec.Env, x.Spec.Secrets, s.Env} {
		maps.Copy(all, from)
	}
	delete(all, sandbox.Marker)
	list := x.job.Env()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name]) // of two of a name the last counts
	}
	return list
}

func stopOf(err error) *sandbox.Stop {
	var s *sandbox.Stop
	if errors.As(err, &s) {
		return s
	}
	return &sandbox.Stop{Reason: becauseAgentStop}
}

// ended says what became of the job by how one of its processes ended.
func ended(r sandbox.Result, ran bool) wire.Event {
	e := wire.Event{Outcome: succeeded}
	if ran {
		e.ExitCode, e.Signal = &r.ExitCode, r.Signal
	}
	switch {
	case r.Stopped != nil:
		e.SignalReason, e.Reason = r.Stopped.Reason, r.Stopped.Reason
		switch r.Stopped.Reason {
		case becauseCancel:
			e.Outcome = cancelled
		case becauseStepTimeout, becauseRunTimeout:
			e.Outcome = timedOut
		default:
			e.Outcome = infra
		}
	case r.OOM && r.ExitCode != 0:
		e.Outcome, e.SignalReason, e.Reason = failed, "oom", "oom"
	case r.ExitCode != 0:
		e.Outcome = failed
	}
	return e
}

// notice tells people what no exit code says, as a line of the log as well. Secrets do not get
// into it either.
func (x *execution) notice(text string) {
	var b maskedText
	w := x.hidden.NewWriter(&b)
	_, _ = io.WriteString(w, text) // which never fails
	_ = w.Close()
	x.out.note(string(b))
	_ = x.report.event(wire.Event{Kind: wire.EventNotice, Text: string(b)}) // finished fails by the same
	fmt.Fprintf(os.Stderr, "job %s: %s\n", x.name(), b)
}

type maskedText []byte

func (m *maskedText) Write(p []byte) (int, error) {
	*m = append(*m, p...)
	return len(p), nil
}
