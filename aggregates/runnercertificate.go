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

// How soon a runner may have its next certificate. Each is an event, and whoever has a
// certificate, perhaps a copy, can ask for the next in a loop.
const (
	renewShare = 3         // a third of the life of the one that it has must be over
	renewAgain = time.Hour // after one that it has not used: the answer was lost, and the key with it
)

// Renew gives the runner another certificate. Asked again for the same key the one that
// it got counts, if it has not used it: the answer was lost.
func (r *Runner) Renew(c events.Certificate, shown string, at time.Time) ([]events.Event, error) {
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
	if wait := r.renewableAt(c.Authority).Sub(at); wait > 0 {
		return nil, ErrRenewalEarly.After(wait)
	}
	return one(events.RunnerCertificateRenewed{Runner: r.id, Name: r.name, Certificate: c})
}

// renewableAt is when the runner may have a certificate of an authority: at once, if the
// last one is of another.
func (r *Runner) renewableAt(authority events.ID) time.Time {
	last := r.Renewed()
	switch {
	case last.Authority != authority:
		return time.Time{}
	case r.next.Serial != "":
		return last.NotBefore.Add(renewAgain)
	}
	return last.NotBefore.Add(last.NotAfter.Sub(last.NotBefore) / renewShare)
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
