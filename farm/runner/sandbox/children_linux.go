package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Children are the processes that this process has started. They are told from orphans that it has
// adopted: what is left of a job whose own processes were killed, even if it is in no control group
// and has no [Marker]. The zero value adopts none.
type Children struct {
	mu     sync.Mutex
	own    map[int]bool
	adopts bool
}

// Adopt makes this process the subreaper of its descendants. Afterwards all processes must be
// started by [Children.Start].
func (c *Children) Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	c.adopts = true
	return nil
}

// Start starts a command. It is an own child until [Children.Wait] returns.
func (c *Children) Start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.own == nil {
		c.own = map[int]bool{}
	}
	c.own[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a command that was started by [Children.Start].
func (c *Children) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, cmd.Process.Pid)
	return err
}

// KillAdopted kills the adopted orphans with their descendants, and returns how many orphans there
// were.
func (c *Children) KillAdopted() int {
	killed := map[int]bool{}
	if !c.adopts {
		return 0
	}
	for late := time.Now().Add(killTimeout); time.Now().Before(late); time.Sleep(killPause) {
		found := c.adopted()
		if len(found) == 0 {
			break
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // not reaped yet, so the pid is still its own
			killDescendants(pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // else in the next round
			killed[pid] = true
		}
	}
	return len(killed)
}

// adopted returns the children that this process has not started, dead ones too.
func (c *Children) adopted() (list []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range processes() {
		if p.parent == os.Getpid() && !c.own[p.pid] {
			list = append(list, p.pid)
		}
	}
	return list
}
