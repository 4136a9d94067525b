package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"svc/fault"
)

// A child is a program in a process group of its own, so that a Ctrl-C in the terminal reaches only
// svc, which decides the order in which programs stop.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and its output is written

	stopping atomic.Bool // svc ends it
}

// launch starts cmd. The caller must stop it. It calls ended when the program has ended for
// whatever reason.
func launch(cmd *exec.Cmd, name string, out *lines, ended func(error)) (*child, error) {
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a grandchild may keep the output open
	cmd.SysProcAttr = childAttributes()

	started := make(chan error)
	go func() { // ends with the program
		// Pdeathsig is tied to the thread that started the program, not to the process: the thread
		// must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the result is in ProcessState
		out.flush()
		if !c.cmd.ProcessState.Success() && !c.stopping.Load() {
			out.reveal() // they say why
		}
		ended(fmt.Errorf("%s ended by itself: %s", name, cmd.ProcessState))
		close(c.done)
	}()
	err := <-started
	return c, fault.Wrap(err, "start %s", name)
}

// wait returns when the program has ended: nil if it exited with 0.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%s: %s", c.name, c.cmd.ProcessState)
}

// awaitReady calls probe repeatedly until it returns nil, or until limit is over.
func (c *child) awaitReady(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := probe(limited)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s is not ready after %s: %w", c.name, limit, err)
		}
	}
}

// requestStop asks the program to end, and waits until it has, or limit is over, or force is closed.
func (c *child) requestStop(limit time.Duration, force <-chan struct{}) {
	c.stopping.Store(true)
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-force:
	}
}

// stop asks the program to end and waits. After limit, or once force is closed, it kills the
// program and the rest of its group.
func (c *child) stop(limit time.Duration, force <-chan struct{}) {
	c.requestStop(limit, force)
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
}
