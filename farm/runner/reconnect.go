package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/runner/identity"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

var errGone = spool.ErrGone

// Pauses between connections.
const (
	minBackoff      = time.Second
	backoffMax      = time.Minute
	supersededPause = time.Minute // keeps two runners with one certificate from superseding each other all the time
)

// backoff returns the pause after a number of failed connections: exponential with full jitter, so
// that many runners do not reconnect together.
func backoff(failures int) time.Duration {
	limit := backoffMax
	if failures < 6 {
		limit = min(minBackoff<<failures, backoffMax)
	}
	return rand.N(limit) + 1
}

// connectLoop connects again and again until the supervisor ends.
func (s *Supervisor) connectLoop(ctx context.Context) error {
	untilIdle, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.inBackground(func(context.Context) {
		if s.waitUntilIdle(untilIdle) == nil {
			cancel(errStopped)
		}
	})
	for failures := 0; ; failures++ {
		if s.leaving() && failures > 0 {
			return nil // there is nothing left to send
		}
		welcomed, after, err := s.connect(untilIdle)
		switch {
		case closedBy(err, wire.CloseProtocol): // sending the same again would close it again
			s.dropMalformed()
		case welcomed:
			failures = 0
		}
		if welcomed && after == 0 && untilIdle.Err() == nil && wasCut(err) {
			s.update(func() { s.lost = append(s.recentlyLost(), time.Now()) })
		}
		switch {
		case errors.Is(err, errGoodbye), errors.Is(context.Cause(untilIdle), errStopped):
			return nil
		case ctx.Err() != nil:
			return nil
		}
		if final := s.finalError(err); final != nil {
			return final
		}
		pause := s.cfg.Backoff(failures)
		if after > 0 {
			pause = min(after, backoffMax)
		}
		if closedBy(err, wire.CloseSuperseded) {
			pause = supersededPause
		}
		s.update(func() { s.lastError = err.Error() })
		s.log.Warn("not connected", "err", err, "again_in", pause.Round(time.Millisecond).String())
		if s.waitToReconnect(untilIdle, pause) != nil {
			return nil
		}
	}
}

// Connections that are cut by neither side, for which a proxy on the way is the likely cause.
const (
	lostWithin = 10 * time.Minute
	maxLost    = 100 // that are counted
	manyLost   = 3   // from which on status and doctor tell
)

// wasCut reports whether a connection ended without the service having closed it.
func wasCut(err error) bool {
	var c *websocket.CloseError
	return !errors.As(err, &c) || c.Code == websocket.CloseAbnormalClosure
}

// recentlyLost returns when connections were lost within lostWithin. The caller has the lock.
func (s *Supervisor) recentlyLost() []time.Time {
	since := time.Now().Add(-lostWithin)
	recent := slices.DeleteFunc(slices.Clone(s.lost), func(at time.Time) bool { return at.Before(since) })
	return recent[max(0, len(recent)-maxLost):]
}

// Unsteady returns what to say of connections that were lost often, "" if they were not.
func (st Status) Unsteady() string {
	if st.Lost < manyLost {
		return ""
	}
	return fmt.Sprintf("the connection was lost %d times in the last ten minutes: a proxy or firewall on the way may cut it", st.Lost)
}

// dropMalformed drops the jobs whose messages the service repeatedly finds malformed. Their leases
// expire, and other jobs continue.
func (s *Supervisor) dropMalformed() {
	for _, j := range s.heldJobs() {
		if j.noteMalformed() {
			s.log.Error("giving the job up: the service rejects its messages as malformed", "job", j.name())
			s.inBackground(func(context.Context) { s.drop(j) })
		}
	}
}

// closedBy reports whether the service closed the connection with this code.
func closedBy(err error, code int) bool {
	var c *websocket.CloseError
	return errors.As(err, &c) && c.Code == code
}

// waitToReconnect waits for d, or until the supervisor has nothing left to send.
func (s *Supervisor) waitToReconnect(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if s.leaving() {
			return nil
		}
		select {
		case <-t.C:
			return nil
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait: %w", ctx.Err())
		}
	}
}

// finalError returns the error with which the program exits, or nil if reconnecting may help.
func (s *Supervisor) finalError(err error) error {
	var r *identity.Refusal
	var c *websocket.CloseError
	switch {
	case errors.As(err, &c) && c.Code == wire.CloseRevoked && c.Text == wire.Retired, errors.As(err, &r) && r.Code == "runner_retired":
		return ErrRetired
	case closedBy(err, wire.CloseRevoked):
		return fmt.Errorf("%w: it was revoked", ErrRefused)
	case errors.As(err, &r) && r.Final():
		return fmt.Errorf("%w: %w", ErrRefused, r)
	case errors.As(err, &r) && r.MayBeExpired() && !time.Now().Before(s.farm.Expiry()):
		return fmt.Errorf("%w: its certificate has expired; enroll the machine anew", ErrRefused)
	}
	return nil
}

// Times of certificate renewal.
const (
	renewRetry      = 5 * time.Minute
	renewCheckEvery = time.Hour // between two checks, since timers stop while the machine sleeps
)

// renewLoop renews the certificate before it expires.
func (s *Supervisor) renewLoop(ctx context.Context) {
	spread := rand.Float64()*2 - 1
	for {
		s.mu.Lock()
		id := s.identity
		s.mu.Unlock()
		pause := time.Until(identity.RenewalTime(id.NotBefore, id.NotAfter, spread))
		if pause <= 0 {
			next, err := identity.Renew(ctx, s.cfg.Folder, s.farm)
			if err == nil {
				s.update(func() { s.identity = next })
				s.log.Info("certificate renewed", "until", next.NotAfter)
				continue
			}
			s.log.Error("renew certificate", "err", err)
			pause = renewRetry
		}
		if waitFor(ctx, min(pause, renewCheckEvery)) != nil {
			return
		}
	}
}

// waitFor waits for d, or until ctx ends.
func waitFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	}
}
