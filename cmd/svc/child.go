package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A child is a program that runs in a process group of its own, so that a
// Ctrl-C in the terminal reaches svc alone and svc decides who stops when.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and its output is written
}

// launch starts cmd, which must be stopped. It calls ended
// when the program has, for whatever reason.
func launch(cmd *exec.Cmd, name string, out *lines, ended func(error)) (*child, error) {
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // for output that a grandchild keeps open
	cmd.SysProcAttr = group()

	started := make(chan error)
	go func() { // ends with the program
		// The kernel ends the program with the thread that started it, not
		// with the process: the thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // ProcessState says how it ended
		out.flush()
		ended(fmt.Errorf("%s ended by itself: %s", name, cmd.ProcessState))
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
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

// ready asks probe again and again until it returns nil, or the limit is over.
func (c *child) ready(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := probe(limited)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s is not ready after %s: %w", c.name, limit, err)
		}
	}
}

// ask asks the program to end, and waits for it no longer than limit or until hurry is closed.
func (c *child) ask(limit time.Duration, hurry <-chan struct{}) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	case <-hurry:
	}
}

// stop asks the program to end and waits for it. It ends the program, and
// whatever is left of its group, after limit or once hurry is closed.
func (c *child) stop(limit time.Duration, hurry <-chan struct{}) {
	c.ask(limit, hurry)
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
}
