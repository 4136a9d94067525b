package main

import (
	"context"
	"os/exec"
	"time"

	"svc/farm/runner"
)

// How long a runner that ended by itself is left alone: the longer the more often, unless it
// ran well in between. It is what systemd does of the installed one.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	ranWell    = time.Minute
)

// A keeper starts a program again that ends by itself.
type keeper struct {
	s     *stack
	name  string
	make  func() *exec.Cmd
	ended context.CancelFunc
	over  chan struct{} // closed when the program has ended for good
}

// keep starts the program, of which it returns the first process, and starts it again whenever
// it ends, until it exits with [runner.ExitRefused] or [keeper.stop] is called.
func (s *stack) keep(ctx context.Context, name string, command func() *exec.Cmd) (*keeper, *child, error) {
	k := &keeper{s: s, name: name, make: command, over: make(chan struct{})}
	c, err := k.launch()
	if err != nil {
		return nil, nil, err
	}
	own, ended := context.WithCancel(context.WithoutCancel(ctx)) // who stops it says when
	k.ended = ended
	go func() {
		defer close(k.over)
		k.watch(ctx, own, c)
	}()
	return k, c, nil
}

func (k *keeper) launch() (*child, error) {
	return launch(k.make(), k.name, k.s.out.named(k.name), func(error) {}) // done says it
}

// stop ends the program, and what is left of it, and waits for that.
func (k *keeper) stop() {
	k.ended()
	<-k.over
}

// watch has the program started again until own is done. Nothing is started once ctx is done.
func (k *keeper) watch(ctx, own context.Context, c *child) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		began := time.Now()
		select {
		case <-c.done:
		case <-own.Done():
			c.ask(drainLimit, k.s.hurry)
		}
		c.stop(stopLimit, k.s.hurry) // what it left, too
		if own.Err() != nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) >= ranWell {
			pause = firstPause
		}
		why := c.cmd.ProcessState
		if why.ExitCode() == runner.ExitRefused { // it was revoked, perhaps: the others go on
			k.s.log.Warn("make run has no runner any more", "why", k.name+" ended by itself: "+why.String())
			return
		}
		k.s.log.Warn("the runner ended by itself and is started again", "why", why.String(), "in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		case <-own.Done():
			return
		}
		next, err := k.launch()
		if err != nil {
			k.s.log.Warn("make run has no runner any more", "why", err)
			return
		}
		c = next
	}
}
