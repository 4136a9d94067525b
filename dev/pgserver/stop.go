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
	fastLimit      = time.Minute     // a fast shutdown writes a checkpoint
	immediateLimit = 7 * time.Second // the server itself kills its children after 5 s
	killLimit      = 10 * time.Second
)

// Stop ends the server and frees the folder. It asks for a fast shutdown,
// then for an immediate one, then kills; an error says that it had to
// escalate. A second call does nothing.
func (s *Server) Stop() error { return s.end(s.shutDown) }

// Kill ends the server as a crash would: SIGKILL to the postmaster and to its
// children. It returns when all are gone, and frees the folder.
func (s *Server) Kill() error { return s.end(s.kill) }

func (s *Server) end(how func() error) error {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.lock == nil {
		return nil
	}
	err := errors.Join(how(), s.lock.release())
	s.lock = nil
	if err != nil {
		return fmt.Errorf("stop PostgreSQL in %s: %w", s.config.Dir, err)
	}
	return nil
}

func (s *Server) shutDown() error {
	if s.endsOn(syscall.SIGINT, fastLimit) {
		return nil
	}
	if s.endsOn(syscall.SIGQUIT, immediateLimit) {
		return fmt.Errorf("no end within %s of a fast shutdown: ended at once instead", fastLimit)
	}
	return errors.Join(fmt.Errorf("no end within %s of a shutdown: killed", fastLimit+immediateLimit), s.kill())
}

// endsOn sends a signal and says whether the server ended in time.
func (s *Server) endsOn(signal syscall.Signal, limit time.Duration) bool {
	// An error means that it has ended already.
	_ = s.process.cmd.Process.Signal(signal)
	select {
	case <-s.process.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// kill stops the postmaster first, so that it forks no more, then kills it
// and every child that it had. The children are in process groups of their
// own, so only their parent tells that they belong to it.
func (s *Server) kill() error {
	postmaster := s.process.cmd.Process
	defer removeSegment(pidFile(s.data()))
	_ = postmaster.Signal(syscall.SIGSTOP) // an error means that it has ended already
	var offspring []int
	select {
	case <-s.process.done: // its pid may be someone else's by now
	default:
		offspring = children(postmaster.Pid)
	}
	_ = postmaster.Kill()
	for _, pid := range offspring {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	select {
	case <-s.process.done:
	case <-ctx.Done():
		return fmt.Errorf("process %d is still there after SIGKILL", postmaster.Pid)
	}
	for _, pid := range offspring {
		if err := gone(ctx, pid); err != nil {
			return err
		}
	}
	return nil
}

// removeSegment removes the few bytes of System V shared memory that a killed
// server leaves until the next start on its folder, which may never come. The
// seventh line of its pid file ends with the segment's number.
func removeSegment(pidFile []string) {
	if len(pidFile) < 7 {
		return
	}
	if words := strings.Fields(pidFile[6]); len(words) == 2 {
		ctx, cancel := context.WithTimeout(context.Background(), killLimit)
		defer cancel()
		_ = exec.CommandContext(ctx, "ipcrm", "-m", words[1]).Run() // without it they stay
	}
}

// gone waits until a process is no more.
func gone(ctx context.Context, pid int) error {
	for alive(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d is still there: %w", pid, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// endOrphan sees to a server that an earlier, killed parent left in the
// folder. We hold the folder's lock, so nobody owns it any more. Its pid file
// is removed when the pid is dead or belongs to another program by now:
// PostgreSQL itself would refuse to start in the second case.
func endOrphan(ctx context.Context, data string) error {
	lines := pidFile(data)
	if len(lines) == 0 {
		return nil
	}
	pid, err := strconv.Atoi(lines[0])
	if err == nil && pid > 0 && alive(pid) && strings.Contains(commandLine(pid), data) {
		return waitOrphan(ctx, pid)
	}
	err = os.Remove(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was just ending
	}
	return err
}

// waitOrphan makes an orphan end: on Linux it is ending already.
func waitOrphan(ctx context.Context, pid int) error {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the server %d of an earlier parent: %w", pid, err)
		}
		limited, cancel := context.WithTimeout(ctx, killLimit)
		err := gone(limited, pid)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("the server %d of an earlier parent does not end", pid)
}
