package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits on waiting when the supervisor is stopped.
const (
	sayLimit    = 30 * time.Second // for what was said of jobs to be acknowledged, once none runs
	cancelGrace = 10 * time.Second
)

var errStopped = errors.New("stopped")

// stopLoop obeys signals. What is not acknowledged in time is said when the runner starts again.
func (s *Supervisor) stopLoop(ctx context.Context) {
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("draining; another signal cancels the jobs", "jobs", s.busy())
	s.drain(drainedToStop, true)
	s.poke()
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("cancelling the jobs", "jobs", s.busy())
	for _, j := range s.list() {
		j.order(order{Reason: becauseAgentStop, Grace: cancelGrace})
	}
}

// idle returns when the supervisor was told to stop and no job runs, at least for sayLimit.
func (s *Supervisor) idle(ctx context.Context) error {
	for {
		s.mu.Lock()
		changed, stopping := s.changed, s.drains[drainedToStop]
		s.mu.Unlock()
		if stopping && s.busy() == 0 {
			return waitFor(ctx, sayLimit)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for jobs: %w", ctx.Err())
		}
	}
}

// killAll ends what runs: nobody is left to listen to it.
func (s *Supervisor) killAll() {
	for _, j := range s.list() {
		j.order(order{Reason: becauseAgentStop, Now: true})
	}
}
