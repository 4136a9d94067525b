package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/farm/runner/executor"
)

// Timeouts when the supervisor is stopped.
const (
	ackTimeout  = 30 * time.Second // for the service to be reached, once no job runs
	cancelGrace = 10 * time.Second
)

var errStopped = errors.New("stopped")

// stopLoop handles stop signals: the first one drains, the second one cancels the jobs. Messages and
// artifacts that are not sent in time are sent when the runner starts again.
func (s *Supervisor) stopLoop(ctx context.Context) {
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("draining; another signal cancels the jobs and uploads", "jobs", s.runningJobs())
	s.drain(drainedToStop, true)
	s.wakeWriter()
	select {
	case <-s.cfg.Stop:
	case <-ctx.Done():
		return
	}
	s.log.Info("cancelling the jobs", "jobs", s.runningJobs())
	for _, j := range s.heldJobs() {
		j.sendOrder(executor.StopOrder{Reason: executor.ReasonAgentStop, Grace: cancelGrace})
	}
	s.update(func() { s.cancelling = true })
}

// waitUntilIdle returns when the supervisor was told to stop, no job runs, and what is left to send has
// to wait for the next start: ackTimeout after the service was lost or a second signal came, and
// uploadTimeout after the last job ended at the latest. If nothing is left, the connection ends first.
func (s *Supervisor) waitUntilIdle(ctx context.Context) error {
	var latest, late <-chan time.Time
	for {
		s.mu.Lock()
		changed, stopping, sending := s.changed, s.drains[drainedToStop], !s.connected.IsZero() && !s.cancelling
		s.mu.Unlock()
		idle := stopping && s.runningJobs() == 0
		if idle && latest == nil {
			latest = time.After(uploadTimeout)
		}
		switch {
		case !idle || sending:
			late = nil
		case late == nil:
			late = time.After(s.cfg.ackTimeout)
		}
		select {
		case <-changed:
		case <-late:
			return nil
		case <-latest:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for jobs: %w", ctx.Err())
		}
	}
}

// logLeft logs which jobs the service does not have all of.
func (s *Supervisor) logLeft() {
	for _, j := range s.heldJobs() {
		s.log.Warn("messages or artifacts of a job were not sent: the next start sends it", "job", j.name())
	}
}

// killAll kills all jobs, since nothing is left to read their reports.
func (s *Supervisor) killAll() {
	for _, j := range s.heldJobs() {
		j.sendOrder(executor.StopOrder{Reason: executor.ReasonAgentStop, Kill: true})
	}
}
