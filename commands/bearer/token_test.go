package bearer_test

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands/bearer"
	"svc/events"
	"svc/input"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func TestServiceTokenForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^tok_svc_[0-9A-Za-z]{32}[0-9A-Za-z]{6}$`)
	seen := map[string]bool{}
	for range 200 {
		token := bearer.NewServiceToken()
		s := token.Reveal()
		require.Regexp(t, form, s)
		require.False(t, seen[s])
		seen[s] = true

		sum := int64(0) // the last six digits are the CRC-32 of everything before them
		for _, digit := range s[len(s)-6:] {
			sum = sum*62 + int64(strings.IndexRune(base62, digit))
		}
		require.EqualValues(t, crc32.ChecksumIEEE([]byte(s[:len(s)-6])), sum)

		require.True(t, input.HasToken(s), "no text with it is kept")
		parsed, ok := bearer.ParseServiceToken(s)
		require.True(t, ok)
		require.Equal(t, token, parsed)
		require.Equal(t, s[len(s)-4:], token.Tail())
		require.Equal(t, events.Fingerprint(sha256.Sum256([]byte(s))), token.Fingerprint())
	}
}

// A token that was made by another implementation: the form must not change.
func TestKnownServiceToken(t *testing.T) {
	t.Parallel()
	token, ok := bearer.ParseServiceToken("tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E") // the digits come from Python's zlib.crc32
	require.True(t, ok)
	require.Equal(t, "rA0E", token.Tail())
}

func TestEveryChangedCharacterIsNoticed(t *testing.T) {
	t.Parallel()
	s := bearer.NewServiceToken().Reveal()
	for i := range s {
		for _, c := range []byte(base62 + "_-+/ =\x00é") {
			if c == s[i] {
				continue
			}
			_, ok := bearer.ParseServiceToken(s[:i] + string(rune(c)) + s[i+1:])
			require.False(t, ok, "character %d", i)
		}
	}
}

func TestSwappedNeighboursAreNoticed(t *testing.T) {
	t.Parallel()
	for range 100 {
		s := bearer.NewServiceToken().Reveal()
		for i := range len(s) - 1 {
			swapped := []byte(s)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			_, ok := bearer.ParseServiceToken(string(swapped))
			require.Equal(t, s[i] == s[i+1], ok, "characters %d and %d", i, i+1)
		}
	}
}

func TestOtherTextsAreNoTokens(t *testing.T) {
	t.Parallel()
	s := bearer.NewServiceToken().Reveal()
	body, sum := s[:len(s)-6], s[len(s)-6:]
	for name, text := range map[string]string{
		"nothing":           "",
		"the prefix":        "tok_svc_",
		"another prefix":    "tok_usr_" + s[8:],
		"an upper prefix":   "TOK_SVC_" + s[8:],
		"no checksum":       body,
		"one too few":       s[:len(s)-1],
		"one too many":      s + "0",
		"a line end":        s + "\n",
		"a space before":    " " + s,
		"twice":             s + s,
		"upper case":        strings.ToUpper(s),
		"zeroes":            "tok_svc_" + strings.Repeat("0", 38),
		"another character": body[:len(body)-1] + "-" + sum,
		"wide characters":   body[:len(body)-2] + "é" + sum,
	} {
		token, ok := bearer.ParseServiceToken(text)
		require.False(t, ok, name)
		require.NotContains(t, fmt.Sprint(token), s[8:40], name)
	}
}

// All characters are equally likely: chi-squared over 64,000 of them. By chance, one run in
// a billion fails.
func TestTokenCharactersAreUniform(t *testing.T) {
	t.Parallel()
	const tokens = 2000
	var counts [256]int
	for range tokens {
		for _, c := range []byte(bearer.NewServiceToken().Reveal()[8:40]) {
			counts[c]++
		}
	}
	expected, chi := float64(tokens*32)/62, 0.0
	for _, c := range []byte(base62) {
		d := float64(counts[c]) - expected
		chi += d * d / expected
	}
	require.Less(t, chi, 148.0, "61 degrees of freedom")
}
