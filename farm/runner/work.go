package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// ExecCommand is the argument with which a job's process is started.
const ExecCommand = "exec"

// work runs a job in its process until nothing of it is left, and has its end said.
func (s *Supervisor) work(j *job, a wire.Assign) {
	defer close(j.ended)
	err := s.child(j, a)
	if n := sandbox.Sweep(j.name()); n > 0 {
		s.log.Warn("killed what was left of a job", "job", j.name(), "processes", n)
	}
	if err := sandbox.RemoveAll(s.workDir(j)); err != nil {
		s.log.Error("remove folder of the job", "job", j.name(), "err", err)
	}
	j.mu.Lock()
	j.over = true
	said, dropped := j.finished > 0, j.dropped
	j.mu.Unlock()
	if !said && !dropped {
		s.log.Error("the job's process has broken off", "job", j.name(), "err", err)
		s.sayBroken(j)
	}
	s.log.Info("job ended", "job", j.name())
	s.update(func() {})
	s.poke()
}

func (s *Supervisor) workDir(j *job) string { return s.cfg.Folder.path(workFolder, j.name()) }

const sayBrokenFor = time.Minute

// sayBroken ends a job that cannot say its end itself. If the disk takes nothing the
// job leaves the heartbeats, and the service takes it away by the lease.
func (s *Supervisor) sayBroken(j *job) {
	reason := "agent_crashed"
	select {
	case <-j.killed:
		reason = becauseFenced
	default:
	}
	var err error
	for late := time.Now().Add(sayBrokenFor); time.Now().Before(late); {
		if err = j.say(wire.Event{Kind: wire.EventFinished, Outcome: infra, Reason: reason, FinishedAt: time.Now().UTC()}); err == nil {
			return
		}
		if waitFor(s.ctx, time.Second) != nil {
			return // the next supervisor says it
		}
	}
	s.log.Error("spool", "job", j.name(), "err", err)
	j.set(func() { j.dropped = true })
}

// child starts the process of a job and takes in what it says. The error is why it has not
// said its end.
func (s *Supervisor) child(j *job, a wire.Assign) error {
	cmd := exec.CommandContext(context.Background(), s.cfg.Program, ExecCommand) // it is told to end through its input
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.workDir(j), "LANG=C.UTF-8"}
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = withParent()
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	j.set(func() { j.pid = cmd.Process.Pid })
	defer j.set(func() { j.pid = 0 })
	over := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.tell(j, a, in, cmd.Process, over)
	}()
	err = reports(out, func(kind byte, body []byte) error { return s.take(j, kind, body) })
	if err != nil {
		_ = cmd.Process.Kill() // what it says cannot be kept
	}
	_, _ = io.Copy(io.Discard, out)
	err = errors.Join(err, cmd.Wait())
	close(over)
	<-stopped
	return err
}

// take keeps what a job's process says.
func (s *Supervisor) take(j *job, kind byte, body []byte) error {
	switch kind {
	case kindEvent, kindChunk:
		if err := j.append(kind, body); err != nil {
			return err
		}
		s.poke()
		return nil
	case kindManifest:
		return j.keep(body)
	}
	return fmt.Errorf("report of kind %q", kind)
}

// tell writes to the process what it has to run, and orders, until it is over. A process
// that does not end when it is told to kill is killed itself.
func (s *Supervisor) tell(j *job, a wire.Assign, in io.WriteCloser, process *os.Process, over <-chan struct{}) {
	defer in.Close()
	s.mu.Lock()
	limits := s.limits
	s.mu.Unlock()
	first := assignment{
		Job: j.job, Epoch: j.epoch, Spec: a, Dir: s.workDir(j), Files: Folder(j.dir).path(filesFolder), Program: s.cfg.Program,
		Mounts: s.cfg.Mounts, LogLimit: limits.LogBytesPerJob, ArtifactLimit: limits.ArtifactMaxJobBytes, GitProtocols: s.cfg.GitProtocols,
	}
	w := bufio.NewWriter(in)
	write := func(v any) {
		text, err := json.Marshal(v)
		if err == nil {
			if pipe, ok := in.(interface{ SetWriteDeadline(time.Time) error }); ok {
				_ = pipe.SetWriteDeadline(time.Now().Add(childPatience)) // it may be stopped
			}
			_, _ = w.Write(append(text, '\n'))
			_ = w.Flush() // a process that does not read has ended
		}
	}
	write(first)
	killed := j.killed
	var late <-chan time.Time
	for {
		select {
		case o := <-j.orders:
			write(o)
		case <-killed:
			killed, late = nil, time.After(childPatience)
		case <-late:
			_ = process.Kill() // it may have ended
		case <-over:
			return
		}
	}
}
