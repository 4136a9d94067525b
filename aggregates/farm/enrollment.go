package farm

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
		"All machines that this enrollment is for have become runners: revoke the runners.")
	ErrEnrollmentUsed = fault.New(fault.Conflict, "enrollment_used",
		"This enrollment token was used by machines with other keys, as often as it may be. Ask for a new one.")
)

// Limits of an enrollment. A token for one machine is used by a person at once, one for several when machines start.
const (
	MaxEnrollmentUses     = 1000
	minEnrollmentLifetime = time.Minute
	maxEnrollmentLifetime = time.Hour           // for one machine
	maxReusableLifetime   = 90 * 24 * time.Hour // for several
	maxRecordedRefusals   = 10                  // per enrollment, because many may know its token
)

// An Enrollment is an invitation to one machine, or to several, with a token.
type Enrollment struct {
	minted    events.EnrollmentMinted
	minter    events.ID                    // the person who minted it
	runners   map[events.KeyHash]events.ID // that machines became, by their keys
	last      string                       // name of the last of them
	expired   bool                         // the expiry has been recorded
	withdrawn bool
	refusals  int
}

// Apply adds one event.
func (n *Enrollment) Apply(e events.Event, by events.Actor) {
	switch e := e.(type) {
	case events.EnrollmentMinted:
		n.minted, n.minter = e, by.ID
	case events.EnrollmentUsed:
		if n.runners == nil {
			n.runners = map[events.KeyHash]events.ID{}
		}
		n.runners[e.Key], n.last = e.Runner, e.Name
	case events.EnrollmentRefused:
		n.refusals++
	case events.EnrollmentExpired:
		n.expired = true
	case events.EnrollmentWithdrawn:
		n.withdrawn = true
	}
}

// usesLeft returns how many more machines may use the token before it expires.
func (n *Enrollment) usesLeft() int { return n.minted.Machines() - len(n.runners) }

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
	longest, machines := maxEnrollmentLifetime, "one machine"
	if e.Uses > 1 {
		longest, machines = maxReusableLifetime, "several machines"
	}
	switch lasts := e.ExpiresAt.Sub(at); {
	case e.Uses < 0 || e.Uses > MaxEnrollmentUses:
		return nil, fault.Field("uses", "must be from 1 to %d", MaxEnrollmentUses)
	case e.Uses > 1 && e.Name != "":
		return nil, fault.Field("name", "must be empty for several machines, which name themselves")
	case e.CapacityLimit < 1 || e.CapacityLimit > maxCapacity:
		return nil, fault.Field("capacityLimit", "must be from 1 to %d", maxCapacity)
	case e.Jobs < 0:
		return nil, fault.Field("jobs", "must be 0 or more")
	case lasts < minEnrollmentLifetime || lasts > longest:
		return nil, fault.Field("ttlSeconds", "must be from %d to %d for %s", minEnrollmentLifetime/time.Second, longest/time.Second, machines)
	}
	if e.Uses == 1 {
		e.Uses = 0 // one machine is recorded as before there could be several
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
// and Runner returns the runner that its machine became. With [ErrEnrollmentUsed] and
// [ErrEnrollmentInvalid] there may be events of the enrollment, which record the attempt.
func (n *Enrollment) Use(
	token events.Fingerprint, runner events.ID, m Machine, c events.Certificate, at time.Time,
) (own, its []events.Event, err error) {
	id := n.minted.Enrollment
	switch {
	case id.IsZero() || n.withdrawn || n.minted.Fingerprint != token:
		return nil, nil, ErrEnrollmentInvalid
	case !at.Before(n.minted.ExpiresAt):
		if !n.expired && n.usesLeft() > 0 {
			own = append(own, events.EnrollmentExpired{Enrollment: id, Name: n.minted.Name, ExpiredAt: n.minted.ExpiresAt})
		}
		return own, nil, ErrEnrollmentInvalid
	case !n.Runner(m.Key).IsZero():
		return nil, nil, nil
	case n.usesLeft() <= 0:
		if n.refusals < maxRecordedRefusals {
			own = append(own, events.EnrollmentRefused{Enrollment: id, Name: n.last, Key: m.Key, Reason: ErrEnrollmentUsed.Code})
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

// Runner returns the runner that the machine with a key became by the token, or the zero ID if it became none.
func (n *Enrollment) Runner(key events.KeyHash) events.ID { return n.runners[key] }

// Minter returns the person who minted the token.
func (n *Enrollment) Minter() events.ID { return n.minter }

// Withdraw revokes the token.
func (n *Enrollment) Withdraw() ([]events.Event, error) {
	switch {
	case n.minted.Enrollment.IsZero():
		return nil, ErrNoEnrollment
	case n.usesLeft() <= 0:
		return nil, ErrEnrollmentDone
	case n.withdrawn:
		return nil, nil
	}
	return oneEvent(events.EnrollmentWithdrawn{Enrollment: n.minted.Enrollment, Name: n.minted.Name, Tail: n.minted.Tail})
}
