// Package executor is the process of one job on a build machine. It checks out the source, runs the
// steps, collects the artifacts and reports to the supervisor. It masks secrets in all of that.
package executor

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
	"time"

	"svc/farm/runner/mask"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// An Assignment is the first line on the standard input of a job's process.
type Assignment struct {
	Name          string      `json:"name"` // of the job's folders
	Epoch         int         `json:"epoch"`
	Spec          wire.Assign `json:"spec"`
	Dir           string      `json:"dir"`   // the job's folder, made and removed by the process
	Files         string      `json:"files"` // folder for artifacts, made by the process
	Program       string      `json:"program"`
	Mounts        []string    `json:"mounts,omitempty"`
	Network       Network     `json:"network,omitempty"`
	LogLimit      int64       `json:"logLimit"`
	ArtifactLimit int64       `json:"artifactLimit"`
	GitProtocols  string      `json:"gitProtocols"`
	MaxProcesses  int         `json:"maxProcesses"`
	DiskLimit     int64       `json:"diskLimit"` // bytes; 0 is no limit
	FenceOrder
}

// A FenceOrder on one of the further lines moves the time at which the process kills the job by
// itself, since the supervisor may stand still. It is a time since boot; 0 is never.
type FenceOrder struct {
	Fence time.Duration `json:"fence,omitempty"`
}

// A StopOrder is any other line: to end the job after a grace period, or to kill it at once.
type StopOrder struct {
	Reason string        `json:"reason"`
	Grace  time.Duration `json:"grace"`
	Kill   bool          `json:"now"` // kill at once
}

// Reasons to stop a job, as in wire.Event.SignalReason.
const (
	ReasonCancel      = "cancel"
	reasonStepTimeout = "step_timeout"
	reasonRunTimeout  = "run_timeout"
	reasonIdle        = "idle"    // no output for too long
	reasonOutcome     = "outcome" // the step has done its work and does not end
	ReasonAgentStop   = "agent_stop"
	ReasonFenced      = "fenced"
	reasonDisk        = "disk_limit"
)

// Outcomes of a job.
const (
	succeeded = "succeeded"
	failed    = "failed"
	cancelled = "cancelled"
	timedOut  = "timed_out"
	Infra     = "infra" // the machine's fault, not the job's
)

// An execution is the state of a job's process. Where a method has two contexts, the job must be killed
// when killed is done, and must end within a grace period when stopping is done.
type execution struct {
	Assignment
	report  *reporter
	out     *output
	masks   *mask.Set
	job     *sandbox.Job
	began   time.Time
	killNow context.CancelCauseFunc

	checkedOut bool // the working directory is that of the commit

	cpu    time.Duration
	maxRSS int64
}

// Execute is the main function of a job's process. It reads the assignment and orders from in, runs
// the job and reports on out. It returns when nothing of the job is left but its artifacts.
func Execute(in io.Reader, out io.Writer) error {
	preferForOOM()
	if err := sandbox.Adopt(); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	x := &execution{report: &reporter{to: out}, began: time.Now()}
	if err := json.Unmarshal(text, &x.Assignment); err != nil {
		return errors.New("read what to run: malformed") // the error may quote a secret
	}
	killed, killNow := context.WithCancelCause(context.Background())
	stopping, stopGracefully := context.WithCancelCause(killed)
	defer killNow(nil)
	x.killNow = killNow
	fences := make(chan time.Duration)
	go keepFence(killed, x.Fence, fences, killNow)
	go followOrders(killed, lines, fences, stopGracefully, killNow) // ends with its input
	return x.run(killed, stopping)
}

// FenceEvery is the pause between two looks whether a fence has passed.
const FenceEvery = 250 * time.Millisecond

// keepFence kills the job when the fence has passed. fences moves it, only ever to later times.
func keepFence(killed context.Context, at time.Duration, fences <-chan time.Duration, killNow context.CancelCauseFunc) {
	t := time.NewTicker(FenceEvery)
	defer t.Stop()
	for {
		select {
		case <-killed.Done():
			return
		case later := <-fences:
			at = max(at, later)
		case <-t.C:
			if at > 0 && BootTime() >= at {
				killNow(&sandbox.Stop{Reason: ReasonFenced})
				return
			}
		}
	}
}

// followOrders reads orders until in ends, which means that the supervisor has died. Of several orders
// the one with the earliest kill wins.
func followOrders(
	killed context.Context, lines *bufio.Reader, fences chan<- time.Duration, stopGracefully, killNow context.CancelCauseFunc,
) {
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			killNow(&sandbox.Stop{Reason: ReasonAgentStop})
			return
		}
		var o struct {
			StopOrder
			FenceOrder
		}
		if json.Unmarshal(text, &o) != nil {
			continue
		}
		if o.Fence > 0 {
			select {
			case fences <- o.Fence:
			case <-killed.Done():
			}
			continue
		}
		stop := &sandbox.Stop{Reason: o.Reason, Grace: o.Grace}
		if o.Kill {
			killNow(stop)
		} else {
			stopGracefully(stop)
			time.AfterFunc(o.Grace, func() { killNow(stop) })
		}
	}
}

// run runs the job, and reports its start and its end.
func (x *execution) run(killed, stopping context.Context) (err error) {
	x.out = newOutput(x.report, x.LogLimit)
	secrets := append(slices.Collect(maps.Values(x.Spec.Secrets)), x.Network.secrets()...)
	if x.Spec.Source != nil {
		secrets = append(secrets, urlSecrets(x.Spec.Source.URL)...)
	}
	x.masks = mask.New(secrets...)
	if err := x.report.event(wire.Event{Kind: wire.EventStarted, StartedAt: wire.At(x.began)}); err != nil {
		return err
	}
	var result wire.Event
	x.job, err = sandbox.New(x.config())
	if err == nil {
		stop := x.startWatch(killed)
		result = x.steps(killed, stopping)
		result = x.collect(killed, result)
		stop()
		err = x.job.Remove()
	}
	if err != nil && result.Outcome == "" {
		result = wire.Event{Outcome: Infra, Reason: "sandbox_failed"}
		x.notice(err.Error())
	}
	sum := x.out.close()
	result.Kind, result.Log = wire.EventFinished, &sum
	result.StartedAt, result.FinishedAt = wire.At(x.began), wire.At(time.Now())
	result.CPUMs, result.MaxRSSBytes = x.cpu.Milliseconds(), x.maxRSS
	return x.report.event(result)
}

func (x *execution) config() sandbox.Config {
	s := x.Spec.Sandbox
	return sandbox.Config{
		Name: x.Name, Dir: x.Dir, Program: x.Program, Kind: s.Kind, HostNetwork: s.Network == "host", Mounts: x.Mounts,
		Authorities: x.Network.authorities(), Input: x.Spec.Input,
		Limits: sandbox.Limits{MemoryBytes: int64(s.MemoryMiB) << 20, CPUs: s.CPUs, Processes: x.MaxProcesses},
	}
}

// steps checks out the source and runs the steps until one fails. It returns the job's end.
func (x *execution) steps(killed, stopping context.Context) wire.Event {
	cancel := context.CancelFunc(func() {})
	if s := x.Spec.RunSeconds; s > 0 {
		stop := &sandbox.Stop{Reason: reasonRunTimeout, Grace: seconds(x.Spec.GraceSeconds)}
		stopping, cancel = context.WithTimeoutCause(stopping, seconds(s), stop)
	}
	defer cancel()
	if x.Spec.Source != nil {
		if e := x.checkout(killed, stopping); e.Outcome != succeeded {
			return e
		}
		x.checkedOut = true
	}
	if x.Spec.Collect {
		if err := x.makeOutFolder(); err != nil {
			x.notice(err.Error())
			return wire.Event{Outcome: Infra, Reason: "sandbox_failed"}
		}
	}
	for i, s := range x.Spec.Steps {
		if e := x.step(killed, stopping, i, s); e.Outcome != succeeded {
			return e
		}
	}
	return wire.Event{Outcome: succeeded, ExitCode: new(int)}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// step runs one step, and returns the job's end if this is the last step.
func (x *execution) step(killed, stopping context.Context, index int, s wire.Step) wire.Event {
	if stopped := context.Cause(stopping); stopped != nil {
		return endOf(sandbox.Result{Stopped: stopCause(stopped)}, false)
	}
	began := time.Now()
	// If this fails so does the report of the job's end, whose error is returned.
	_ = x.report.event(wire.Event{Kind: wire.EventStepStarted, Step: index, Name: s.Name, StartedAt: wire.At(began)})
	if s.TimeoutSeconds > 0 {
		stop := &sandbox.Stop{Reason: reasonStepTimeout, Grace: seconds(x.Spec.GraceSeconds)}
		var cancel context.CancelFunc
		stopping, cancel = context.WithTimeoutCause(stopping, seconds(s.TimeoutSeconds), stop)
		defer cancel()
	}
	stopping, watch := x.watchStep(stopping)
	r, err := x.runMasked(killed, stopping, sandbox.Command{Args: shell(s), Env: x.env(s), Output: watch})
	watch.stop()
	result := endOf(r, true)
	if err != nil {
		x.notice(fmt.Sprintf("step %s: %v", s.Name, err))
		result = wire.Event{Outcome: Infra, Reason: "sandbox_failed"}
	}
	over := result
	over.Kind, over.Step, over.Name = wire.EventStepFinished, index, s.Name
	over.StartedAt, over.FinishedAt = wire.At(began), wire.At(time.Now())
	over.CPUMs, over.MaxRSSBytes = r.CPU.Milliseconds(), r.MaxRSS
	if over.Outcome == Infra { // the protocol has this outcome only for jobs
		if over.Outcome = failed; r.Stopped != nil {
			over.Outcome = cancelled
		}
	}
	_ = x.report.event(over) // as above
	return result
}

// runMasked runs a command and masks its output, which c.Output, unless it is nil, sees before.
func (x *execution) runMasked(killed, stopping context.Context, c sandbox.Command) (sandbox.Result, error) {
	masked := x.masks.NewWriter(x.out)
	if c.Output == nil {
		c.Output = masked
	} else {
		c.Output = io.MultiWriter(c.Output, masked)
	}
	r, err := x.job.Run(killed, stopping, c)
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

// env returns the variables of a step. Later sources override earlier ones: the machine's network, the sandbox,
// the job, secrets, the step.
func (x *execution) env(s wire.Step) []string {
	all := map[string]string{}
	for _, from := range []map[string]string{x.Spec.Env, x.Spec.Secrets, s.Env} {
		maps.Copy(all, from)
	}
	delete(all, sandbox.Marker)
	list := x.job.Env()
	if x.reachesOthers() {
		list = append(x.Network.without(all), list...)
	}
	if x.Spec.Collect {
		list = append(list, "SVC_OUT="+x.job.InWork(wire.OutFolder))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name]) // the last of equal names wins
	}
	return list
}

func stopCause(err error) *sandbox.Stop {
	var s *sandbox.Stop
	if errors.As(err, &s) {
		return s
	}
	return &sandbox.Stop{Reason: ReasonAgentStop}
}

// endOf returns the job's end as the result of one of its processes determines it. ran is false if
// the process was not started.
func endOf(r sandbox.Result, ran bool) wire.Event {
	e := wire.Event{Outcome: succeeded}
	if ran {
		e.ExitCode, e.Signal = &r.ExitCode, r.Signal
	}
	switch {
	case r.Stopped != nil:
		e.SignalReason, e.Reason = r.Stopped.Reason, r.Stopped.Reason
		switch r.Stopped.Reason {
		case ReasonCancel:
			e.Outcome = cancelled
		case reasonStepTimeout, reasonRunTimeout, reasonIdle:
			e.Outcome = timedOut
		case reasonOutcome: // the exit code is that of the stop
			return wire.Event{Outcome: succeeded, SignalReason: reasonOutcome}
		case reasonDisk:
			e.Outcome = failed
		default:
			e.Outcome = Infra
		}
	case r.OOM && r.ExitCode != 0:
		e.Outcome, e.SignalReason, e.Reason = failed, "oom", "oom"
	case r.ExitCode != 0:
		e.Outcome = failed
	}
	return e
}

// notice reports what no exit code says, as an event and in the log, with secrets masked.
func (x *execution) notice(text string) {
	text = x.masked(text)
	x.out.note(text)
	_ = x.report.event(wire.Event{Kind: wire.EventNotice, Text: text}) // if this fails so does the report of the job's end
	fmt.Fprintf(os.Stderr, "job %s: %s\n", x.Name, text)
}

// masked returns text with secrets masked.
func (x *execution) masked(text string) string {
	var b maskedText
	w := x.masks.NewWriter(&b)
	_, _ = io.WriteString(w, text) // never fails
	_ = w.Close()
	return string(b)
}

type maskedText []byte

func (m *maskedText) Write(p []byte) (int, error) {
	*m = append(*m, p...)
	return len(p), nil
}
