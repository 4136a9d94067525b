package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gorilla/websocket"

	"svc/farm/runner/spool"
	"svc/farm/wire"
)

var errGone = spool.ErrGone

// Times between connections.
const (
	backoffFirst    = time.Second
	backoffLast     = time.Minute
	supersededPause = time.Minute // two runners with one certificate must not throw out each other all the time
)

// backoff is how long to wait after so many connections that failed: anything up to a
// limit that doubles, so that many runners do not come back together.
func backoff(failures int) time.Duration {
	limit := backoffLast
	if failures < 6 {
		limit = min(backoffFirst<<failures, backoffLast)
	}
	return rand.N(limit) + 1
}

// connectLoop connects until the supervisor ends.
func (s *Supervisor) connectLoop(ctx context.Context) error {
	idle, over := context.WithCancelCause(ctx)
	defer over(nil)
	s.owned.Go(func() {
		if s.idle(idle) == nil {
			over(errStopped)
		}
	})
	for failures := 0; ; failures++ {
		if s.leaving() && failures > 0 {
			return nil // there is nothing to say to a service that does not answer
		}
		welcomed, after, err := s.connect(idle)
		switch {
		case closedBy(err, wire.CloseProtocol): // which saying the same again brings about again
			s.giveUpMalformed()
		case welcomed:
			failures = 0
		}
		switch {
		case errors.Is(err, errLeft), errors.Is(context.Cause(idle), errStopped):
			return nil
		case ctx.Err() != nil:
			return nil
		}
		if final := s.refused(err); final != nil {
			return final
		}
		pause := s.cfg.Backoff(failures)
		if after > 0 {
			pause = min(after, backoffLast)
		}
		if closedBy(err, wire.CloseSuperseded) {
			pause = supersededPause
		}
		s.update(func() { s.lastError = err.Error() })
		s.log.Warn("not connected", "err", err, "again_in", pause.Round(time.Millisecond).String())
		if s.pause(idle, pause) != nil {
			return nil
		}
	}
}

// giveUpMalformed drops the jobs of which the service will not take what is said: their
// leases end, and the others go on.
func (s *Supervisor) giveUpMalformed() {
	for _, j := range s.list() {
		if j.malformed() {
			s.log.Error("giving the job up: the service finds what is said of it malformed", "job", j.name())
			s.owned.Go(func() { s.drop(j) })
		}
	}
}

// closedBy reports whether the service closed the connection with that code.
func closedBy(err error, code int) bool {
	var c *websocket.CloseError
	return errors.As(err, &c) && c.Code == code
}

// pause waits, but no longer than until there is nothing left to wait for.
func (s *Supervisor) pause(ctx context.Context, d time.Duration) error {
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

// refused returns the error with which the program ends, if coming again is of no use.
func (s *Supervisor) refused(err error) error {
	var r *Refusal
	switch {
	case closedBy(err, wire.CloseRevoked):
		return fmt.Errorf("%w: it was revoked, or has done its jobs", ErrRefused)
	case errors.As(err, &r) && r.final():
		return fmt.Errorf("%w: %w", ErrRefused, r)
	case errors.As(err, &r) && r.ofCertificate() && !time.Now().Before(s.link.expires()):
		return fmt.Errorf("%w: its certificate has expired; enrol the machine anew", ErrRefused)
	}
	return nil
}

// Times of renewing.
const (
	renewRetry    = 5 * time.Minute
	renewAtLatest = time.Hour // between two looks: the machine may sleep
)

// renewLoop renews the certificate in time.
func (s *Supervisor) renewLoop(ctx context.Context) {
	spread := rand.Float64()*2 - 1
	for {
		s.mu.Lock()
		id := s.identity
		s.mu.Unlock()
		pause := time.Until(renewAt(id.NotBefore, id.NotAfter, spread))
		if pause <= 0 {
			next, err := renew(ctx, s.cfg.Folder, s.link)
			if err == nil {
				s.update(func() { s.identity = next })
				s.log.Info("certificate renewed", "until", next.NotAfter)
				continue
			}
			s.log.Error("renew certificate", "err", err)
			pause = renewRetry
		}
		if waitFor(ctx, min(pause, renewAtLatest)) != nil {
			return
		}
	}
}
