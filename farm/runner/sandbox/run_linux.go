package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTimeout limits reading output after no process of the step is left.
	drainTimeout = 5 * time.Second
	// termRetry is the pause before SIGTERM is sent again to a step that had no process yet.
	termRetry = 20 * time.Millisecond
)

// adopted says whether orphans of steps become children of this process.
var adopted atomic.Bool

// Adopt makes this process the subreaper of its descendants, which adopts steps that outlive their
// first process. Afterwards all children of this process must belong to steps; they are killed when
// [Job.Run] ends.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	adopted.Store(true)
	return nil
}

// killRest kills what a step has left, and reports whether nothing is left.
func killRest(pid int) bool {
	if !adopted.Load() {
		return killDescendants(pid)
	}
	gone := killDescendants(os.Getpid())
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return gone
		}
	}
}

// command prepares a step's first process. The caller closes its ExtraFiles after it has started.
// firstGeneration is the depth at which the step's own processes begin.
func (j *Job) command(c Command) (cmd *exec.Cmd, firstGeneration int, err error) {
	o := initSpec{Args: c.Args, Groups: j.group.files()}
	if o.Env, err = cleanEnv(c); err != nil {
		return nil, 0, err
	}
	cmd = exec.CommandContext(context.Background(), j.Program, InitCommand) // it is ended by signals
	// An upgrade may have put another version at its path, which expects another spec.
	cmd.Path = "/proc/self/exe"
	cmd.Dir, cmd.Env = "/", []string{systemPath, Marker + "=" + j.Name}
	if j.group == nil || j.group.events == "" {
		o.Data = uint64(j.Limits.MemoryBytes)
	}
	if j.group == nil || j.group.processes == "" {
		o.Procs = uint64(j.Limits.Processes)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	firstGeneration = 1 // below the first process
	var options *os.File
	switch {
	case j.Kind == Bubblewrap && !c.Unsandboxed:
		if options, err = memoryFile("options", []byte(strings.Join(j.bubblewrapOptions(o.Env), "\x00"))); err != nil {
			return nil, 0, err
		}
		o.Args, o.Env, firstGeneration = j.bubblewrapArgs(c.Args), cmd.Env, 2
	case os.Geteuid() == 0:
		cmd.Dir, o.Reap, o.Mount = j.Work(), true, true
		attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	default:
		cmd.Dir, o.Reap = j.Work(), true
		attr.Pdeathsig = syscall.SIGTERM // it kills its descendants first
	}
	cmd.SysProcAttr = attr
	spec, err := o.file()
	if err != nil {
		_ = options.Close() // the first error is returned
		return nil, 0, err
	}
	cmd.ExtraFiles = []*os.File{spec, options} // become specFD and optionsFD
	return cmd, firstGeneration, nil
}

// cleanEnv returns the variables of a command without repetitions. Zero bytes are refused: they
// separate the variables of a process, and the options of bubblewrap.
func cleanEnv(c Command) ([]string, error) {
	if slices.ContainsFunc(slices.Concat(c.Args, c.Env), func(s string) bool { return strings.Contains(s, "\x00") }) {
		return nil, errors.New("start step: zero byte in an argument or variable")
	}
	last := map[string]string{}
	for _, v := range c.Env {
		if name, _, ok := strings.Cut(v, "="); ok && name != "" {
			last[name] = v
		}
	}
	return slices.Sorted(maps.Values(last)), nil
}

func (j *Job) run(ctx, graceful context.Context, c Command) (r Result, err error) {
	cmd, firstGeneration, err := j.command(c)
	if err != nil {
		return r, err
	}
	defer func() {
		for _, f := range cmd.ExtraFiles {
			_ = f.Close() // nil if there are no options
		}
	}()
	from, to, err := os.Pipe()
	if err != nil {
		return r, fmt.Errorf("open pipe of a step: %w", err)
	}
	defer from.Close()
	cmd.Stdout, cmd.Stderr = to, to
	before := j.group.kills()
	err = cmd.Start()
	_ = to.Close() // the step has its own
	if err != nil {
		return r, fmt.Errorf("start step: %w", err)
	}
	copied := make(chan error, 1)
	go func() { copied <- copyOutput(c.Output, from) }()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState has the details
		close(ended)
	}()

	r.Stopped = j.supervise(ctx, graceful, cmd.Process.Pid, firstGeneration, ended)
	left := !j.group.kill()
	left = !killRest(cmd.Process.Pid) || left
	err = drain(from, copied)
	r.fill(cmd.ProcessState)
	r.OOM = j.group.kills() > before
	if left {
		return r, errors.Join(err, errors.New("processes of the step cannot be killed"))
	}
	return r, err
}

// copyOutput copies what a step writes. After a write error it goes on reading, so that the step
// does not block.
func copyOutput(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // the first error is returned
	}
	return err
}

// supervise returns when the first process has ended, and the Stop that ended it, if any.
func (j *Job) supervise(ctx, graceful context.Context, pid, firstGeneration int, ended <-chan struct{}) (stopped *Stop) {
	asked, forced := graceful.Done(), ctx.Done()
	var grace, retry <-chan time.Time
	kill := func() {
		asked, forced, grace, retry = nil, nil, nil, nil
		_ = j.group.kill()
		_ = killDescendants(pid)               // killRest kills any that are left
		_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped yet, so the pid is still its own
	}
	for {
		select {
		case <-ended:
			return stopped
		case <-asked:
			asked, stopped = nil, stopCause(graceful)
			if stopped.Grace <= 0 {
				kill()
				break
			}
			grace = time.After(stopped.Grace)
			if !terminate(pid, firstGeneration) {
				retry = time.After(termRetry)
			}
		case <-retry: // it had no processes yet
			retry = nil
			if !terminate(pid, firstGeneration) {
				retry = time.After(termRetry)
			}
		case <-grace:
			kill()
		case <-forced:
			if stopped == nil || context.Cause(ctx) != context.Canceled { //nolint:errorlint // a bare context.Canceled has no Stop
				stopped = stopCause(ctx)
			}
			kill()
		}
	}
}

// drain waits for the rest of the output. No process of the step is left, so if the pipe does not
// end, a process outside of the step holds it.
func drain(from *os.File, copied <-chan error) error {
	late := time.AfterFunc(drainTimeout, func() { _ = from.SetReadDeadline(time.Now()) })
	defer late.Stop()
	if err := <-copied; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("pass on output of a step: %w", err)
	}
	return nil
}

func (r *Result) fill(s *os.ProcessState) {
	if s == nil {
		return
	}
	r.ExitCode = s.ExitCode()
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.ExitCode = 128 + int(w.Signal())
	}
	if n := r.ExitCode - 128; n > 0 && n < 65 {
		r.Signal = unix.SignalName(syscall.Signal(n))
	}
	r.CPU = s.UserTime() + s.SystemTime()
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.MaxRSS = u.Maxrss << 10
	}
}
