package bearer

import (
	"crypto/sha256"
	"fmt"

	"svc/events"
	"svc/input"
)

// An EnrollmentToken lets as many machines become runners as its enrollment says. It is "tok_enr_" followed by the
// same characters as in a [ServiceToken]. Like that it is never printed, as long as the
// field that holds it is exported.
type EnrollmentToken string

// NewEnrollmentToken generates a random token.
func NewEnrollmentToken() EnrollmentToken { return EnrollmentToken(newToken(input.EnrollmentPrefix)) }

// ParseEnrollmentToken returns s as a token if its form and checksum are right.
func ParseEnrollmentToken(s string) (EnrollmentToken, bool) {
	if !isToken(input.EnrollmentPrefix, s) {
		return "", false
	}
	return EnrollmentToken(s), true
}

// Fingerprint returns what is stored instead of the token.
func (t EnrollmentToken) Fingerprint() events.Fingerprint { return sha256.Sum256([]byte(t)) }

// Tail returns the last four characters.
func (t EnrollmentToken) Tail() string { return string(t[len(t)-tailLength:]) }

// Reveal returns the token itself, for the one answer that shows it.
func (t EnrollmentToken) Reveal() string { return string(t) }

const redactedEnrollmentToken = "[enrollment token]"

// Format prevents the token from being printed.
func (t EnrollmentToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, redactedEnrollmentToken) }

// MarshalText keeps the token out of JSON and structured logs.
func (t EnrollmentToken) MarshalText() ([]byte, error) { return []byte(redactedEnrollmentToken), nil }
