package farm

import (
	"slices"
	"time"

	"svc/events"
)

// reasonReused is the reason for suspending a runner whose superseded certificate was used.
const reasonReused = "certificate_reused"

func (r *Runner) applyCertificate(e events.Event) {
	switch e := e.(type) {
	case events.RunnerCertificateRenewed:
		r.next = e.Certificate
	case events.RunnerCertificateSuperseded:
		old := slices.DeleteFunc(slices.Clone(r.superseded), func(c events.Certificate) bool {
			return c.NotAfter.Before(r.next.NotBefore) // it has expired anyway
		})
		r.superseded, r.current, r.next = append(old, r.current), r.next, events.Certificate{}
	case events.RunnerCertificateReused: // the suspension is a separate event
	}
}

// How soon a runner may renew its certificate. Each renewal is an event, so whoever has a
// certificate, perhaps a copy, must not be able to renew in a loop.
const (
	minLifetimeShare = 3         // a third of the certificate's lifetime must be over
	minRetryInterval = time.Hour // since the last renewal, if that certificate was not used: the answer and the key were lost
)

// Renew gives the runner a new certificate. It returns no event if the last one is for the
// same key and was not used: its answer was lost, and it is valid.
func (r *Runner) Renew(c events.Certificate, shown string, at time.Time) ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended != "":
		return nil, ErrRunnerOver
	case shown != r.current.Serial:
		return nil, ErrSerialUnknown
	case r.next.Serial != "" && r.next.Key == c.Key:
		return nil, nil
	}
	if wait := r.renewableAt(c.Authority).Sub(at); wait > 0 {
		return nil, ErrRenewalEarly.After(wait)
	}
	return oneEvent(events.RunnerCertificateRenewed{Runner: r.id, Name: r.name, Certificate: c})
}

// renewableAt returns when the runner may get a certificate of an authority. The time is
// zero if the last certificate is of another authority.
func (r *Runner) renewableAt(authority events.ID) time.Time {
	last := r.NewestCertificate()
	switch {
	case last.Authority != authority:
		return time.Time{}
	case r.next.Serial != "":
		return last.NotBefore.Add(minRetryInterval)
	}
	return last.NotBefore.Add(last.NotAfter.Sub(last.NotBefore) / minLifetimeShare)
}

// NewestCertificate returns the certificate that the runner got last.
func (r *Runner) NewestCertificate() events.Certificate {
	if r.next.Serial != "" {
		return r.next
	}
	return r.current
}

// UseCertificate records the use of one of the runner's certificates, whose signature was verified.
// The first use of a new one supersedes the one before. The use of a superseded one
// suspends the runner, because somebody has a copy.
func (r *Runner) UseCertificate(serial string, at time.Time) ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended != "" || serial == r.current.Serial:
		return nil, nil
	case serial == r.next.Serial:
		return oneEvent(events.RunnerCertificateSuperseded{Runner: r.id, Name: r.name, From: r.current.Serial, Serial: serial})
	}
	reused := func(c events.Certificate) bool { return c.Serial == serial && at.Before(c.NotAfter) }
	if !slices.ContainsFunc(r.superseded, reused) {
		return nil, ErrSerialUnknown // it was issued and replaced before it was ever used
	}
	return []events.Event{
		events.RunnerCertificateReused{Runner: r.id, Name: r.name, Serial: serial},
		events.RunnerSuspended{Runner: r.id, Name: r.name, Reason: reasonReused},
	}, nil
}
