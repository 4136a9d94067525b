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

// minNeedle is the length of the shortest needle in bytes. Masking every "true" would make the log useless,
// and reveal the secret.
const minNeedle = 6

// New returns the set of needles of all secrets. Each secret, and each line of it, is also found as
// base64 at any alignment, in hexadecimal, URL-encoded, in a JSON string, and as shells quote it.
func New(secrets ...string) *Set {
	var plain, wrapped [][]byte
	for _, s := range secrets {
		p, w := Needles(s)
		plain, wrapped = append(plain, p...), append(wrapped, w...)
	}
	return newSet(plain, wrapped)
}

// Needles returns everything that is searched for because of one secret, as it is and with line ends
// in between.
func Needles(secret string) (plain, wrapped [][]byte) {
	for _, text := range variants(secret) {
		plain = appendLong(plain, encodings(text))
		plain = appendLong(plain, quotings(text))
		wrapped = appendLong(wrapped, wrappedEncodings(text))
	}
	return unique(plain), unique(wrapped)
}

func appendLong(needles [][]byte, forms []string) [][]byte {
	for _, form := range forms {
		if len(form) >= minNeedle {
			needles = append(needles, []byte(form))
		}
	}
	return needles
}

func unique(needles [][]byte) [][]byte {
	slices.SortFunc(needles, bytes.Compare)
	return slices.CompactFunc(needles, bytes.Equal)
}

// variants returns the secret, the secret without surrounding white space, as programs that read it
// from a file print it, its lines, and its words with single spaces in between, as shells pass it on if
// it is not quoted.
func variants(secret string) []string {
	list := []string{secret, strings.TrimSpace(secret), joinWords(secret)}
	if lines := strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		for _, l := range lines {
			list = append(list, strings.TrimSpace(l))
		}
		unix := strings.ReplaceAll(secret, "\r\n", "\n")
		list = append(list, unix, strings.ReplaceAll(unix, "\n", "\r\n"), joinWords(unix))
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < minNeedle })
	slices.Sort(list)
	return slices.Compact(list)
}

func joinWords(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n", r) }), " ")
}

func encodings(plain string) []string {
	return []string{
		plain, url.QueryEscape(plain), url.PathEscape(plain), strings.ReplaceAll(url.QueryEscape(plain), "+", "%20"),
		jsonString(plain, true), jsonString(plain, false),
	}
}

// wrappedEncodings are those whose text programs break into lines.
func wrappedEncodings(plain string) []string {
	digits := hex.EncodeToString([]byte(plain))
	list := []string{digits, strings.ToUpper(digits)}
	for before := range 3 {
		list = append(list, base64Core(base64.RawStdEncoding, before, plain), base64Core(base64.RawURLEncoding, before, plain))
	}
	return list
}

// jsonString returns plain as it appears inside a JSON string, with <, > and & escaped or not.
func jsonString(plain string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if err := e.Encode(plain); err != nil {
		return "" // cannot happen with a string
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// base64Core returns the base64 characters that plain always produces when it starts at an offset of
// before bytes, modulo three, in the encoded data. Characters that also depend on neighbouring
// bytes are cut off.
func base64Core(enc *base64.Encoding, before int, plain string) string {
	text := enc.EncodeToString(append(make([]byte, before), plain...))
	first := (before*8 + 5) / 6 // characters that contain bits of the bytes before
	last := (before + len(plain)) * 8 / 6
	return text[first:last]
}
