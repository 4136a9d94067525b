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
	"path/filepath"
	"time"

	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// ExecCommand is the argument that starts a job's process.
const ExecCommand = "exec"

// runJob runs a job in its process until no process of it is left, and makes sure that its end is
// reported.
func (s *Supervisor) runJob(ctx context.Context, j *job, a wire.Assign) {
	defer close(j.ended)
	err := s.runProcess(j, a)
	if n := sandbox.Sweep(j.name()) + s.children.KillAdopted(); n > 0 {
		s.log.Warn("killed what was left of a job", "job", j.name(), "processes", n)
	}
	if err := s.children.RemoveAll(s.workDir(j)); err != nil {
		s.log.Error("remove folder of the job", "job", j.name(), "err", err)
	}
	j.mu.Lock()
	j.processEnded = true
	reported, dropped := j.finishedSeq > 0, j.dropped
	j.mu.Unlock()
	if !reported && !dropped {
		s.log.Error("the job's process ended without reporting it", "job", j.name(), "err", err)
		reason := "agent_crashed"
		if isClosed(j.killed) {
			reason = executor.ReasonFenced
		}
		s.reportEnd(ctx, j, func() error {
			return j.appendEvent(wire.Event{Kind: wire.EventFinished, Outcome: executor.Infra, Reason: reason, FinishedAt: wire.At(time.Now())})
		})
	}
	s.log.Info("job ended", "job", j.name())
	s.update(func() {}) // wakes those who wait for a change
	s.wakeWriter()
}

func (s *Supervisor) workDir(j *job) string { return s.cfg.Folder.Path(identity.WorkFolder, j.name()) }

const reportEndFor = time.Minute

// reportEnd has add store the end of a job that has no process and has not reported it. If the spool
// cannot be written the job is dropped, and its lease expires. If the end is stored but cannot be made
// durable the job stays, since the end may have been sent.
func (s *Supervisor) reportEnd(ctx context.Context, j *job, add func() error) {
	var err error
	for late := time.Now().Add(reportEndFor); time.Now().Before(late); {
		if j.hasEnd() {
			err = j.spool.Sync()
		} else {
			err = add()
		}
		if err == nil || errors.Is(err, os.ErrClosed) { // closed: the job was forgotten meanwhile
			s.wakeWriter()
			return
		}
		if waitFor(ctx, time.Second) != nil {
			return // the next supervisor reports it
		}
	}
	s.log.Error("store end of job in spool", "job", j.name(), "err", err)
	if j.hasEnd() {
		s.wakeWriter()
		return
	}
	s.inBackground(func(context.Context) { s.drop(j) })
}

// runProcess starts the process of a job and stores its reports until it ends. The error says why
// the process may not have reported an end.
func (s *Supervisor) runProcess(j *job, a wire.Assign) error {
	cmd := exec.CommandContext(context.Background(), s.cfg.Program, ExecCommand) // it is stopped through its input
	cmd.Path = executable(s.cfg.Program)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.workDir(j), "LANG=C.UTF-8"}
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = dieWithParent()
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	if err := s.children.Start(cmd); err != nil {
		return fmt.Errorf("start job's process: %w", err)
	}
	j.update(func() { j.pid = cmd.Process.Pid })
	defer j.update(func() { j.pid = 0 })
	over := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.feedProcess(j, a, in, cmd.Process, over)
	}()
	err = executor.ReadReports(out, func(kind byte, body []byte) error { return s.handleReport(j, kind, body) })
	if err != nil {
		_ = cmd.Process.Kill() // its reports cannot be stored
	}
	_, _ = io.Copy(io.Discard, out)
	err = errors.Join(err, s.children.Wait(cmd))
	close(over)
	<-stopped
	return err
}

// handleReport stores a report of a job's process.
func (s *Supervisor) handleReport(j *job, kind byte, body []byte) error {
	switch kind {
	case executor.KindEvent, executor.KindChunk:
		if err := j.append(kind, body); err != nil {
			return err
		}
		s.wakeWriter()
		return nil
	case executor.KindManifest:
		return j.saveManifest(body)
	}
	return fmt.Errorf("report of kind %q", kind)
}

// feedProcess writes the assignment and then orders to the process, until over is closed. A process
// that does not end after a kill order is killed.
func (s *Supervisor) feedProcess(j *job, a wire.Assign, in io.WriteCloser, process *os.Process, over <-chan struct{}) {
	defer in.Close()
	s.mu.Lock()
	limits := s.limits
	s.mu.Unlock()
	first := executor.Assignment{
		Name: j.name(), Epoch: j.epoch, Spec: a, Dir: s.workDir(j), Files: filepath.Join(j.dir, filesFolder), Program: s.cfg.Program,
		Mounts: s.cfg.Mounts, Network: executor.NetworkOf(s.cfg.Environ), GitProtocols: s.cfg.GitProtocols,
		LogLimit: limits.LogBytesPerJob, ArtifactLimit: limits.ArtifactMaxJobBytes,
		MaxProcesses: s.cfg.MaxProcesses, DiskLimit: s.cfg.MaxJobDisk, FenceOrder: j.fence(),
	}
	w := bufio.NewWriter(in)
	write := func(v any) {
		text, err := json.Marshal(v)
		if err == nil {
			if pipe, ok := in.(interface{ SetWriteDeadline(time.Time) error }); ok {
				_ = pipe.SetWriteDeadline(time.Now().Add(killTimeout)) // a stopped process does not read
			}
			_, _ = w.Write(append(text, '\n'))
			_ = w.Flush() // fails only if the process has ended or hangs
		}
	}
	write(first)
	killed := j.killed
	var late <-chan time.Time
	for {
		select {
		case o := <-j.orders:
			write(o)
		case <-j.fenceMoved:
			if f := j.fence(); f.Fence > 0 { // else a kill order is queued
				write(f)
			}
		case <-killed:
			killed, late = nil, time.After(killTimeout)
		case <-late:
			_ = process.Kill() // it may have ended
		case <-over:
			return
		}
	}
}
