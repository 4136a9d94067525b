package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Timeouts when the supervisor is stopped.
const (
	ackTimeout  = 30 * time.Second // for the last messages to be acknowledged, once no job runs
	cancelGrace = 10 * time.Second
)

var errStopped = errors.New("stopped")

// stopLoop handles stop signals: the first one drains, the second one cancels the jobs. Messages
// that are not acknowledged in time are sent when the runner starts again.
func (s *Supervisor) stopLoop(ctx context.Context) {
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("draining; another signal cancels the jobs", "jobs", s.runningJobs())
	s.drain(drainedToStop, true)
	s.wakeWriter()
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("cancelling the jobs", "jobs", s.runningJobs())
	for _, j := range s.heldJobs() {
		j.sendOrder(stopOrder{Reason: reasonAgentStop, Grace: cancelGrace})
	}
}

// waitUntilIdle returns ackTimeout after the supervisor was told to stop and no job runs.
func (s *Supervisor) waitUntilIdle(ctx context.Context) error {
	for {
		s.mu.Lock()
		changed, stopping := s.changed, s.drains[drainedToStop]
		s.mu.Unlock()
		if stopping && s.runningJobs() == 0 {
			return waitFor(ctx, ackTimeout)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for jobs: %w", ctx.Err())
		}
	}
}

// killAll kills all jobs, since nothing is left to read their reports.
func (s *Supervisor) killAll() {
	for _, j := range s.heldJobs() {
		j.sendOrder(stopOrder{Reason: reasonAgentStop, Kill: true})
	}
}
