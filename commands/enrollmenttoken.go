package commands

import (
	"crypto/sha256"
	"fmt"

	"svc/events"
	"svc/input"
)

// An EnrollmentToken is what makes a machine a runner, once: "tok_enr_" and the rest of
// the form of a [ServiceToken]. No printing shows it, as long as it is kept in exported
// fields.
type EnrollmentToken string

// NewEnrollmentToken makes a token from the system's randomness.
func NewEnrollmentToken() EnrollmentToken { return EnrollmentToken(newToken(input.EnrollmentPrefix)) }

// ParseEnrollmentToken tells a token from other text by its form and checksum.
func ParseEnrollmentToken(s string) (EnrollmentToken, bool) {
	if !isToken(input.EnrollmentPrefix, s) {
		return "", false
	}
	return EnrollmentToken(s), true
}

// Fingerprint is what is stored in the token's place.
func (t EnrollmentToken) Fingerprint() events.Fingerprint { return sha256.Sum256([]byte(t)) }

// Tail returns the last four characters.
func (t EnrollmentToken) Tail() string { return string(t[len(t)-tailOfTokens:]) }

// Reveal returns the token itself: for the one answer that shows it.
func (t EnrollmentToken) Reveal() string { return string(t) }

const enrollmentTokenShown = "[enrolment token]"

// Format keeps the token out of whatever is printed.
func (t EnrollmentToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, enrollmentTokenShown) }

// MarshalText keeps it out of JSON and of structured logs.
func (t EnrollmentToken) MarshalText() ([]byte, error) { return []byte(enrollmentTokenShown), nil }
