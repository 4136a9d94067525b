package aggregates

import (
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about an enrollment is refused. All invalid tokens get the
// same error, whatever the reason.
var (
	ErrNoEnrollment      = fault.New(fault.NotFound, "enrollment_not_found", "There is no such enrollment.")
	ErrEnrollmentInvalid = fault.New(fault.Unauthenticated, "enrollment_invalid",
		"This enrollment token is not valid. It may have expired or been withdrawn: ask for a new one.")
	ErrEnrollmentDone = fault.New(fault.Conflict, "enrollment_used",
		"A machine has become a runner by this enrollment: revoke the runner.")
	ErrEnrollmentUsed = fault.New(fault.Conflict, "enrollment_used",
		"This enrollment token was used by a machine with another key. Ask for a new one.")
)

const (
	// MaxEnrollmentLifetime is the longest lifetime of a token.
	MaxEnrollmentLifetime = time.Hour
	minEnrollmentLifetime = time.Minute
	maxRecordedRefusals   = 10 // per enrollment, because many may know its token
)

// An Enrollment is an invitation to one machine, with a token that can be used once.
type Enrollment struct {
	minted    events.EnrollmentMinted
	minter    events.ID // the person who minted it
	used      events.EnrollmentUsed
	expired   bool // the expiry has been recorded
	withdrawn bool
	refusals  int
}

// Apply adds one event.
func (n *Enrollment) Apply(e events.Event, by events.Actor) {
	switch e := e.(type) {
	case events.EnrollmentMinted:
		n.minted, n.minter = e, by.ID
	case events.EnrollmentUsed:
		n.used = e
	case events.EnrollmentRefused:
		n.refusals++
	case events.EnrollmentExpired:
		n.expired = true
	case events.EnrollmentWithdrawn:
		n.withdrawn = true
	}
}

// Mint creates the enrollment. Its name, if it has one, becomes the runner's name.
func (n *Enrollment) Mint(e events.EnrollmentMinted, at time.Time) ([]events.Event, error) {
	if e.Name != "" {
		if err := input.RunnerName.Check("name", e.Name); err != nil {
			return nil, err
		}
	}
	if err := input.NoTokens(map[string]string{"name": e.Name}); err != nil {
		return nil, err
	}
	if err := checkLabels("labels", e.Labels); err != nil {
		return nil, err
	}
	if err := checkLabels("exclusiveLabels", e.ExclusiveLabels); err != nil {
		return nil, err
	}
	switch lasts := e.ExpiresAt.Sub(at); {
	case e.CapacityLimit < 1 || e.CapacityLimit > maxCapacity:
		return nil, fault.Field("capacityLimit", "must be from 1 to %d", maxCapacity)
	case e.Jobs < 0:
		return nil, fault.Field("jobs", "must be 0 or more")
	case lasts < minEnrollmentLifetime || lasts > MaxEnrollmentLifetime:
		return nil, fault.Field("ttlSeconds", "must be from 60 to 3600")
	}
	e.ExpiresAt = e.ExpiresAt.UTC().Truncate(time.Microsecond)
	e.Labels = sortedSet(append(slices.Clone(e.Labels), e.ExclusiveLabels...))
	e.ExclusiveLabels = sortedSet(e.ExclusiveLabels)
	return oneEvent(e)
}

func sortedSet(list []string) []string {
	return slices.Compact(slices.AppendSeq([]string{}, slices.Values(slices.Sorted(slices.Values(list)))))
}

// A Machine is a machine that asks to become a runner.
type Machine struct {
	Name  string // its own choice, used if the enrollment has no name
	Key   events.KeyHash
	Hello Hello
}

func (n *Enrollment) check(m *Machine) error {
	if n.minted.Name != "" {
		m.Name = n.minted.Name
	}
	m.Name = strings.ToLower(m.Name)
	if err := input.RunnerName.Check("name", m.Name); err != nil {
		return err
	}
	if err := input.NoTokens(map[string]string{"name": m.Name}); err != nil {
		return err
	}
	if m.Hello.Capacity < 1 {
		return fault.Field("capacity", "must be 1 or more")
	}
	return m.Hello.check()
}

// Use makes a machine that showed a token a runner. own are events of the enrollment, its are the first events
// of the runner's stream. If the same key has used the token before, there are no events,
// and Runner returns the runner that the machine became. With [ErrEnrollmentUsed] and
// [ErrEnrollmentInvalid] there may be events of the enrollment, which record the attempt.
func (n *Enrollment) Use(
	token events.Fingerprint, runner events.ID, m Machine, c events.Certificate, at time.Time,
) (own, its []events.Event, err error) {
	id := n.minted.Enrollment
	switch {
	case id.IsZero() || n.withdrawn || n.minted.Fingerprint != token:
		return nil, nil, ErrEnrollmentInvalid
	case !at.Before(n.minted.ExpiresAt):
		if !n.expired && n.used.Runner.IsZero() {
			own = append(own, events.EnrollmentExpired{Enrollment: id, Name: n.minted.Name, ExpiredAt: n.minted.ExpiresAt})
		}
		return own, nil, ErrEnrollmentInvalid
	case n.used.Key == m.Key && !n.used.Runner.IsZero():
		return nil, nil, nil
	case !n.used.Runner.IsZero():
		if n.refusals < maxRecordedRefusals {
			own = append(own, events.EnrollmentRefused{Enrollment: id, Name: n.used.Name, Key: m.Key, Reason: ErrEnrollmentUsed.Code})
		}
		return own, nil, ErrEnrollmentUsed
	}
	if err := n.check(&m); err != nil {
		return nil, nil, err
	}
	selfNamed := n.minted.Name == ""
	own = append(own, events.EnrollmentUsed{Enrollment: id, Name: m.Name, Runner: runner, Key: m.Key})
	its = append(its, events.RunnerEnrolled{
		Runner: runner, Name: m.Name, Enrollment: id, Agent: storedAgent(m.Hello.Agent), Certificate: c,
		Labels: labelsOf(n.minted.Labels, m.Hello, m.Name, selfNamed), MintedLabels: n.minted.Labels, SelfNamed: selfNamed,
		ExclusiveLabels: n.minted.ExclusiveLabels, Capacity: min(m.Hello.Capacity, n.minted.CapacityLimit),
		CapacityLimit: n.minted.CapacityLimit, Jobs: n.minted.Jobs,
	})
	return own, its, nil
}

// Runner returns the runner that was enrolled with the token, or the zero ID if none was.
func (n *Enrollment) Runner() events.ID { return n.used.Runner }

// Minter returns the person who minted the token.
func (n *Enrollment) Minter() events.ID { return n.minter }

// Withdraw revokes the token.
func (n *Enrollment) Withdraw() ([]events.Event, error) {
	switch {
	case n.minted.Enrollment.IsZero():
		return nil, ErrNoEnrollment
	case !n.used.Runner.IsZero():
		return nil, ErrEnrollmentDone
	case n.withdrawn:
		return nil, nil
	}
	return oneEvent(events.EnrollmentWithdrawn{Enrollment: n.minted.Enrollment, Name: n.minted.Name, Tail: n.minted.Tail})
}
