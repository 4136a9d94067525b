package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainLimit is how long output is read on when no process of the step is left.
	drainLimit = 5 * time.Second
	// termRetry is how soon a step that had no process yet is asked to end again.
	termRetry = 20 * time.Millisecond
)

// adopted is whether orphans of steps become children of this process.
var adopted atomic.Bool

// Adopt makes this process the parent of orphans below it: of steps that killed their first
// process. From then on all its children are steps' and end when [Job.Run] does.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	adopted.Store(true)
	return nil
}

// clearRest kills what a step that has ended left, and reports whether nothing is left.
func clearRest(pid int) bool {
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

// command prepares the step's first process. The caller closes told once that has started.
func (j *Job) command(c Command) (cmd *exec.Cmd, told *os.File, shallow int, err error) {
	o := orders{Args: c.Args, Groups: j.group.files()}
	if j.group == nil {
		o.Data = uint64(j.Limits.MemoryBytes)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	shallow = 1 // the generation at which the step itself begins
	switch {
	case j.Kind == Bubblewrap && !c.Plain:
		o.Args, shallow = j.wrap(c.Args), 2
	case os.Geteuid() == 0:
		o.Reap, o.Mount = true, true
		attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	default:
		o.Reap = true
		attr.Pdeathsig = syscall.SIGTERM // it has others to kill first
	}
	if told, err = o.file(); err != nil {
		return nil, nil, 0, err
	}
	cmd = exec.CommandContext(context.Background(), j.Program, InitCommand) // it ends by signals, in order
	cmd.Dir, cmd.Env, cmd.SysProcAttr = j.Work(), c.Env, attr
	cmd.ExtraFiles = []*os.File{told} // the first of these is ordersFile
	return cmd, told, shallow, nil
}

func (j *Job) run(ctx, polite context.Context, c Command) (r Result, err error) {
	cmd, told, shallow, err := j.command(c)
	if err != nil {
		return r, err
	}
	defer told.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return r, fmt.Errorf("pipe of a step: %w", err)
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
	go func() { copied <- pass(c.Output, from) }()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its state says more
		close(ended)
	}()

	r.Stopped = supervise(ctx, polite, cmd.Process.Pid, shallow, ended)
	left := !clearRest(cmd.Process.Pid)
	err = drain(from, copied)
	r.fill(cmd.ProcessState)
	r.OOM = j.group.kills() > before
	if left {
		return r, errors.Join(err, errors.New("processes of the step cannot be killed"))
	}
	return r, err
}

// pass copies what a step writes. When it cannot be passed on it is still read, so that
// the step does not hang.
func pass(to io.Writer, from io.Reader) error {
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from) // the first error is told
	}
	return err
}

// supervise returns when the first process has ended, and the order by which, if any.
func supervise(ctx, polite context.Context, pid, shallow int, ended <-chan struct{}) (stopped *Stop) {
	asked, forced := polite.Done(), ctx.Done()
	var grace, again <-chan time.Time
	kill := func() {
		asked, forced, grace, again = nil, nil, nil, nil
		_ = killDescendants(pid)               // what is left of them goes when the step has ended
		_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped yet: ended tells of that
	}
	for {
		select {
		case <-ended:
			return stopped
		case <-asked:
			asked, stopped = nil, cause(polite)
			if stopped.Grace <= 0 {
				kill()
				break
			}
			grace = time.After(stopped.Grace)
			if !terminate(pid, shallow) {
				again = time.After(termRetry)
			}
		case <-again: // it had not begun
			again = nil
			if !terminate(pid, shallow) {
				again = time.After(termRetry)
			}
		case <-grace:
			kill()
		case <-forced:
			if stopped == nil || context.Cause(ctx) != context.Canceled { //nolint:errorlint // the bare one names no order
				stopped = cause(ctx)
			}
			kill()
		}
	}
}

// drain waits for the rest of the output. Nobody is left to write: if the pipe does not
// end, somebody outside of the step got hold of it.
func drain(from *os.File, copied <-chan error) error {
	late := time.AfterFunc(drainLimit, func() { _ = from.SetReadDeadline(time.Now()) })
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
