package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// minNeedle is the length of the shortest needle in bytes. Masking every "true" would make the log useless,
// and reveal the secret.
const minNeedle = 6

// needles are what is searched for in the output as it is (plain), with line ends left out (wrapped), and
// with the escape sequences of URLs (url) or with those that begin with a backslash (escaped) decoded.
type needles struct{ plain, wrapped, url, escaped [][]byte }

// New returns the set of needles of all secrets. Each secret, and each line of it, is also found as
// base64 at any alignment, in hexadecimal, URL-encoded, in JSON and other strings with backslashes, and as
// shells quote it.
func New(secrets ...string) *Set { return newSet(needlesOf(secrets...)) }

// needlesOf returns everything that is searched for because of some secrets.
func needlesOf(secrets ...string) needles {
	var n needles
	for _, secret := range secrets {
		for _, text := range variants(secret) {
			n.plain = appendAll(n.plain, text, singleQuoted(text), dashQuoted(text))
			n.wrapped = appendAll(n.wrapped, wrappedEncodings(text)...)
			n.url = appendAll(n.url, text, strings.ReplaceAll(text, " ", "+"))
			n.escaped = appendAll(n.escaped, text, validUTF8(text))
		}
	}
	return needles{unique(n.plain), unique(n.wrapped), unique(n.url), unique(n.escaped)}
}

func appendAll(needles [][]byte, forms ...string) [][]byte {
	for _, form := range forms {
		needles = append(needles, []byte(form))
	}
	return needles
}

func unique(needles [][]byte) [][]byte {
	slices.SortFunc(needles, bytes.Compare)
	return slices.CompactFunc(needles, bytes.Equal)
}

// validUTF8 returns text with each byte that is not UTF-8 replaced by U+FFFD, as encoders of JSON do.
func validUTF8(text string) string { return string([]rune(text)) }

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

// wrappedEncodings are those whose text programs break into lines.
func wrappedEncodings(plain string) []string {
	digits := hex.EncodeToString([]byte(plain))
	list := []string{digits, strings.ToUpper(digits)}
	for before := range 3 {
		list = append(list, base64Core(base64.RawStdEncoding, before, plain), base64Core(base64.RawURLEncoding, before, plain))
	}
	return list
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
