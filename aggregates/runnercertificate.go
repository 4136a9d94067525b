package aggregates

import (
	"slices"
	"time"

	"svc/events"
)

// suspendedFor is why a runner is suspended whose old certificate was seen.
const suspendedFor = "certificate_reused"

func (r *Runner) applyCertificate(e events.Event) {
	switch e := e.(type) {
	case events.RunnerCertificateRenewed:
		r.next = e.Certificate
	case events.RunnerCertificateSuperseded:
		old := slices.DeleteFunc(slices.Clone(r.superseded), func(c events.Certificate) bool {
			return c.NotAfter.Before(r.next.NotBefore) // nobody is let in by it anyhow
		})
		r.superseded, r.current, r.next = append(old, r.current), r.next, events.Certificate{}
	case events.RunnerCertificateReused: // the suspension is an event of its own
	}
}

// Renew gives the runner another certificate. Asked again for the same key the one that
// it got counts, if it has not used it: the answer was lost.
func (r *Runner) Renew(c events.Certificate, shown string) ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.over != "":
		return nil, ErrRunnerOver
	case shown != r.current.Serial:
		return nil, ErrSerialUnknown
	case r.next.Serial != "" && r.next.Key == c.Key:
		return nil, nil
	}
	return one(events.RunnerCertificateRenewed{Runner: r.id, Name: r.name, Certificate: c})
}

// Renewed returns the certificate that the runner got last.
func (r *Runner) Renewed() events.Certificate {
	if r.next.Serial != "" {
		return r.next
	}
	return r.current
}

// Show takes in that a certificate of the runner was used, which is known to be
// genuine. The first use of a new one supersedes the one before; the use of one that was
// superseded suspends the runner: somebody has a copy.
func (r *Runner) Show(serial string, at time.Time) ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.over != "" || serial == r.current.Serial:
		return nil, nil
	case serial == r.next.Serial:
		return one(events.RunnerCertificateSuperseded{Runner: r.id, Name: r.name, From: r.current.Serial, Serial: serial})
	}
	reused := func(c events.Certificate) bool { return c.Serial == serial && at.Before(c.NotAfter) }
	if !slices.ContainsFunc(r.superseded, reused) {
		return nil, ErrSerialUnknown // it was issued and replaced before anybody used it
	}
	return []events.Event{
		events.RunnerCertificateReused{Runner: r.id, Name: r.name, Serial: serial},
		events.RunnerSuspended{Runner: r.id, Name: r.name, Reason: suspendedFor},
	}, nil
}
