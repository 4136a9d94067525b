package commands

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"svc/aggregates"
	"svc/events"
	"svc/input"
)

// A ServiceToken is the whole secret of a service account: "tok_svc_", 32
// random characters, and a checksum of 6, all base62. No printing shows it, as long as
// it is kept in exported fields: fmt cannot call the methods of others.
type ServiceToken string

const (
	tokenRandom  = 32
	tokenSum     = 6
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	tailOfTokens = 4
)

// NewServiceToken makes a token from the system's randomness.
func NewServiceToken() ServiceToken { return ServiceToken(newToken(input.TokenPrefix)) }

func newToken(prefix string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for range tokenRandom {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			panic(err) // crypto/rand does not fail
		}
		b.WriteByte(base62[n.Int64()])
	}
	return b.String() + checksum(b.String())
}

// ParseServiceToken tells a token from other text by its form and checksum.
func ParseServiceToken(s string) (ServiceToken, bool) {
	if !isToken(input.TokenPrefix, s) {
		return "", false
	}
	return ServiceToken(s), true
}

func isToken(prefix, s string) bool {
	if len(s) != len(prefix)+tokenRandom+tokenSum || !strings.HasPrefix(s, prefix) || strings.Trim(s[len(prefix):], base62) != "" {
		return false
	}
	body := s[:len(s)-tokenSum]
	return checksum(body) == s[len(body):]
}

// checksum is the CRC-32 of s in base62, most significant digit first.
func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var digits [tokenSum]byte
	for i := tokenSum - 1; i >= 0; i-- {
		digits[i] = base62[sum%62]
		sum /= 62
	}
	return string(digits[:])
}

// Fingerprint is what is stored in the token's place.
func (t ServiceToken) Fingerprint() events.Fingerprint { return sha256.Sum256([]byte(t)) }

// Tail returns the last four characters.
func (t ServiceToken) Tail() string { return string(t[len(t)-tailOfTokens:]) }

// Reveal returns the token itself: for the one answer that shows it.
func (t ServiceToken) Reveal() string { return string(t) }

const tokenShown = "[service token]"

// Format keeps the token out of whatever is printed.
func (t ServiceToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, tokenShown) }

// MarshalText keeps it out of JSON and of structured logs.
func (t ServiceToken) MarshalText() ([]byte, error) { return []byte(tokenShown), nil }

func (t ServiceToken) known() aggregates.Token {
	return aggregates.Token{Fingerprint: t.Fingerprint(), Tail: t.Tail()}
}
