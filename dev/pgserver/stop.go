package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	fastTimeout      = time.Minute     // a fast shutdown writes a checkpoint
	immediateTimeout = 7 * time.Second // the server kills its children after 5 s
	killTimeout      = 10 * time.Second
)

// Stop stops the server and releases the folder. It requests a fast shutdown, then an immediate
// one, then kills. The error says if it had to escalate. A second call does nothing.
func (s *Server) Stop() error { return s.end(s.shutDown) }

// Kill ends the server as a crash would: with SIGKILL to the postmaster and its children. It
// returns when all have ended, and releases the folder.
func (s *Server) Kill() error { return s.end(s.kill) }

func (s *Server) end(how func() error) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(how(), s.lock.Unlock())
	s.lock = nil
	if err != nil {
		return fmt.Errorf("stop PostgreSQL in %s: %w", s.config.Dir, err)
	}
	return nil
}

func (s *Server) shutDown() error {
	if s.signalAndWait(syscall.SIGINT, fastTimeout) {
		return nil
	}
	if s.signalAndWait(syscall.SIGQUIT, immediateTimeout) {
		return fmt.Errorf("no end within %s of a fast shutdown: ended at once instead", fastTimeout)
	}
	return errors.Join(fmt.Errorf("no end within %s of a shutdown: killed", fastTimeout+immediateTimeout), s.kill())
}

// signalAndWait sends a signal and reports whether the server ended in time.
func (s *Server) signalAndWait(signal syscall.Signal, limit time.Duration) bool {
	// An error means that it has already ended.
	_ = s.process.cmd.Process.Signal(signal)
	select {
	case <-s.process.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill first stops the postmaster, so that it forks no more, and then kills it and its children.
// Children have process groups of their own, so they are found by their parent pid.
func (s *Server) kill() error {
	postmaster := s.process.cmd.Process
	defer removeSegment(pidFile(s.data()))
	_ = postmaster.Signal(syscall.SIGSTOP) // an error means that it has already ended
	var offspring []int
	select {
	case <-s.process.done: // its pid may belong to another process by now
	default:
		offspring = children(postmaster.Pid)
	}
	_ = postmaster.Kill()
	for _, pid := range offspring {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	select {
	case <-s.process.done:
	case <-ctx.Done():
		return fmt.Errorf("process %d is still there after SIGKILL", postmaster.Pid)
	}
	for _, pid := range offspring {
		if err := awaitExit(ctx, pid); err != nil {
			return err
		}
	}
	return nil
}

// removeSegment removes the System V shared memory of a killed server, which would otherwise stay
// until the next start on the folder. The seventh line of the pid file ends with the segment's id.
func removeSegment(pidFile []string) {
	if len(pidFile) < 7 {
		return
	}
	if words := strings.Fields(pidFile[6]); len(words) == 2 {
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		_ = exec.CommandContext(ctx, "ipcrm", "-m", words[1]).Run() // best effort
	}
}

// awaitExit waits until a process has ended.
func awaitExit(ctx context.Context, pid int) error {
	for isRunning(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d is still there: %w", pid, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// endOrphan ends a server that an earlier, killed parent left in the folder. The folder's lock is
// held, so the server has no owner. If its pid is dead or belongs to another program, endOrphan
// removes the pid file, because PostgreSQL would refuse to start in the second case.
func endOrphan(ctx context.Context, data string) error {
	lines := pidFile(data)
	if len(lines) == 0 {
		return nil
	}
	pid, err := strconv.Atoi(lines[0])
	if err == nil && pid > 0 && isRunning(pid) && strings.Contains(commandLine(pid), data) {
		return waitOrphan(ctx, pid)
	}
	err = os.Remove(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has just ended
	}
	return err
}

// waitOrphan makes an orphan end. On Linux it is already ending.
func waitOrphan(ctx context.Context, pid int) error {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the server %d of an earlier parent: %w", pid, err)
		}
		limited, cancel := context.WithTimeout(ctx, killTimeout)
		err := awaitExit(limited, pid)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the server %d of an earlier parent does not end", pid)
}
