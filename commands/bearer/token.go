// Package bearer has the secrets that callers show: tokens of service accounts, and of machines that enroll.
package bearer

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"svc/events"
	"svc/input"
)

// A ServiceToken is the secret of a service account: "tok_svc_", 32 random characters and a
// checksum of 6, all base62. It is never printed, as long as the field that holds it is
// exported: fmt cannot call methods of unexported fields.
type ServiceToken string

const (
	randomLength   = 32
	checksumLength = 6
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	tailLength     = 4
)

// NewServiceToken generates a random token.
func NewServiceToken() ServiceToken { return ServiceToken(newToken(input.TokenPrefix)) }

func newToken(prefix string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for range randomLength {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		b.WriteByte(base62[n.Int64()])
	}
	return b.String() + checksum(b.String())
}

// ParseServiceToken returns s as a token if its form and checksum are right.
func ParseServiceToken(s string) (ServiceToken, bool) {
	if !isToken(input.TokenPrefix, s) {
		return "", false
	}
	return ServiceToken(s), true
}

func isToken(prefix, s string) bool {
	if len(s) != len(prefix)+randomLength+checksumLength || !strings.HasPrefix(s, prefix) || strings.Trim(s[len(prefix):], base62) != "" {
		return false
	}
	body := s[:len(s)-checksumLength]
	return checksum(body) == s[len(body):]
}

// checksum returns the CRC-32 of s in base62, most significant digit first.
func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var digits [checksumLength]byte
	for i := checksumLength - 1; i >= 0; i-- {
		digits[i] = base62[sum%62]
		sum /= 62
	}
	return string(digits[:])
}

// Fingerprint returns what is stored instead of the token.
func (t ServiceToken) Fingerprint() events.Fingerprint { return sha256.Sum256([]byte(t)) }

// Tail returns the last four characters.
func (t ServiceToken) Tail() string { return string(t[len(t)-tailLength:]) }

// Reveal returns the token itself, for the one answer that shows it.
func (t ServiceToken) Reveal() string { return string(t) }

const redactedToken = "[service token]"

// Format prevents the token from being printed.
func (t ServiceToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, redactedToken) }

// MarshalText keeps the token out of JSON and structured logs.
func (t ServiceToken) MarshalText() ([]byte, error) { return []byte(redactedToken), nil }
