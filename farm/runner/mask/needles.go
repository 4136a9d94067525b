package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// What is shorter is not looked for: hiding each "true" of a log would hide the log,
// and tell what the secret is besides.
const (
	leastNeedle = 6 // bytes of a secret, or of one of its forms
	leastLine   = 8 // bytes of a line of a secret that has several
)

// New returns what hides secrets, each of their lines, and both of them as base64 at
// any alignment, in hexadecimal, in an address and in a JSON string.
func New(secrets ...string) *Set {
	var needles [][]byte
	for _, s := range secrets {
		needles = append(needles, Needles(s)...)
	}
	return newSet(needles)
}

// Needles returns all that is looked for because of one secret.
func Needles(secret string) [][]byte {
	var needles [][]byte
	for _, plain := range plains(secret) {
		for _, form := range forms(plain) {
			if len(form) >= leastNeedle {
				needles = append(needles, []byte(form))
			}
		}
	}
	slices.SortFunc(needles, bytes.Compare)
	return slices.CompactFunc(needles, bytes.Equal)
}

// plains are the secret, without the white space around it too, as programs that read
// it from a file print it, and its lines.
func plains(secret string) []string {
	list := []string{secret, strings.TrimSpace(secret)}
	if lines := strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		for _, l := range lines {
			if l = strings.TrimSpace(l); len(l) >= leastLine {
				list = append(list, l)
			}
		}
		unix := strings.ReplaceAll(secret, "\r\n", "\n")
		list = append(list, unix, strings.ReplaceAll(unix, "\n", "\r\n"))
	}
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < leastNeedle })
}

func forms(plain string) []string {
	list := []string{plain, url.QueryEscape(plain), url.PathEscape(plain), strings.ReplaceAll(url.QueryEscape(plain), "+", "%20")}
	digits := hex.EncodeToString([]byte(plain))
	list = append(list, digits, strings.ToUpper(digits), quoted(plain, true), quoted(plain, false))
	for before := range 3 {
		list = append(list, inBase64(base64.RawStdEncoding, before, plain), inBase64(base64.RawURLEncoding, before, plain))
	}
	return list
}

// quoted is the inside of a JSON string, in which encoders escape <, > and & or not.
func quoted(plain string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if err := e.Encode(plain); err != nil {
		return "" // of a string there is none
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// inBase64 is what plain is in base64 when so many bytes, counted from a multiple of
// three, stand before it: the characters that are the same whatever stands around it.
func inBase64(enc *base64.Encoding, before int, plain string) string {
	text := enc.EncodeToString(append(make([]byte, before), plain...))
	first := (before*8 + 5) / 6 // characters that have bits of what is before
	last := (before + len(plain)) * 8 / 6
	return text[first:last]
}
