package main

import (
	"context"
	"os/exec"
	"time"

	"svc/farm/runner"
)

// Pauses before a runner that ended by itself is started again. They double up to maxPause, and
// start over after the runner ran for stableAfter. systemd does the same for the installed runner.
const (
	minPause    = time.Second
	maxPause    = 30 * time.Second
	stableAfter = time.Minute
)

// A restarter restarts a program that ends by itself.
type restarter struct {
	s       *stack
	name    string
	command func() *exec.Cmd
	cancel  context.CancelFunc
	done    chan struct{} // closed when the program has ended for good
}

// startRestarting starts a program and returns its first process. It restarts the program whenever it ends,
// until the program exits with [runner.ExitRefused] or [restarter.stop] is called.
func (s *stack) startRestarting(ctx context.Context, name string, command func() *exec.Cmd) (*restarter, *child, error) {
	r := &restarter{s: s, name: name, command: command, done: make(chan struct{})}
	c, err := r.launch()
	if err != nil {
		return nil, nil, err
	}
	own, ended := context.WithCancel(context.WithoutCancel(ctx)) // it ends by stop, not with ctx
	r.cancel = ended
	go func() {
		defer close(r.done)
		r.watch(ctx, own, c)
	}()
	return r, c, nil
}

func (r *restarter) launch() (*child, error) {
	return launch(r.command(), r.name, r.s.out.named(r.name), func(error) {}) // watch waits for done
}

// stop ends the program and the rest of its group, and waits for that.
func (r *restarter) stop() {
	r.cancel()
	<-r.done
}

// watch restarts the program until own is done. It starts nothing once ctx is done.
func (r *restarter) watch(ctx, own context.Context, c *child) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		select {
		case <-c.done:
		case <-own.Done():
			c.requestStop(drainTimeout, r.s.force)
		}
		c.stop(stopTimeout, r.s.force) // and what is left of its group
		if own.Err() != nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stableAfter {
			pause = minPause
		}
		why := c.cmd.ProcessState
		if why.ExitCode() == runner.ExitRefused { // for example because the runner was revoked
			r.s.log.Warn("there is no runner from now on", "why", r.name+" ended by itself: "+why.String())
			return
		}
		r.s.log.Warn("the runner ended by itself and will be restarted", "why", why.String(), "in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		case <-own.Done():
			return
		}
		next, err := r.launch()
		if err != nil {
			r.s.log.Warn("there is no runner from now on", "why", err)
			return
		}
		c = next
	}
}
