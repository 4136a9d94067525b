package mask

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A decoder decodes the character or escape sequence at the beginning of p. It returns how many bytes that
// is, 0 if p is too short to tell, and appends what they mean to text. What is not a whole sequence stands
// for itself.
type decoder func(text, p []byte) (int, []byte)

// decodePercent decodes what URLs and forms encode, except that + stays as it is.
func decodePercent(text, p []byte) (int, []byte) {
	if p[0] != '%' {
		return 1, append(text, p[0])
	}
	return decodeByte(text, p, 3, 16)
}

// decodeByte decodes an escape sequence of size bytes that ends with two or three digits.
func decodeByte(text, p []byte, size, base int) (int, []byte) {
	count := 2
	if base == 8 {
		count = 3
	}
	switch b := digits(p[min(len(p), size-count):], base, count); {
	case b == tooShort:
		return 0, nil
	case b == noDigits || b > 0xff:
		return 1, append(text, p[0])
	default:
		return size, append(text, byte(b))
	}
}

// letterEscapes are the characters that a backslash and a letter mean in JSON, C, Python, and $” of shells.
var letterEscapes = map[byte]byte{
	'a': '\a', 'b': '\b', 'e': 0x1b, 'E': 0x1b, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// decodeBackslash decodes what strings in quotes and words of shells encode.
func decodeBackslash(text, p []byte) (int, []byte) {
	if p[0] != '\\' {
		return 1, append(text, p[0])
	}
	if len(p) == 1 {
		return 0, nil
	}
	c := p[1]
	switch letter, ok := letterEscapes[c]; {
	case ok:
		return 2, append(text, letter)
	case c == 'x':
		return decodeByte(text, p, 4, 16)
	case c >= '0' && c <= '7':
		return decodeByte(text, p, 4, 8)
	case c == 'u':
		return decodeUnicode(text, p)
	case c < ' ' || c >= 0x7f || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z':
		return 1, append(text, p[0])
	default:
		return 2, append(text, c)
	}
}

// decodeUnicode decodes \u and four digits, or two such sequences with the halves of a surrogate pair.
func decodeUnicode(text, p []byte) (int, []byte) {
	unit := digits(p[2:], 16, 4)
	switch {
	case unit == tooShort:
		return 0, nil
	case unit == noDigits:
		return 1, append(text, p[0])
	}
	if unit >= 0xd800 && unit < 0xdc00 {
		rest := p[6:]
		if len(rest) < 2 && (len(rest) == 0 || rest[0] == '\\') {
			return 0, nil
		}
		if rest[0] == '\\' && rest[1] == 'u' {
			low := digits(rest[2:], 16, 4)
			if low == tooShort {
				return 0, nil
			}
			if r := utf16.DecodeRune(rune(unit), rune(low)); r != utf8.RuneError {
				return 12, utf8.AppendRune(text, r)
			}
		}
	}
	return 6, utf8.AppendRune(text, rune(unit)) // half a pair becomes U+FFFD
}

// Results of digits.
const (
	noDigits = -1
	tooShort = -2
)

// digits returns the number that the first count bytes of p are.
func digits(p []byte, base, count int) int {
	part := p[:min(count, len(p))]
	value, err := strconv.ParseUint(string(part), base, 32)
	switch {
	case err != nil && len(part) > 0:
		return noDigits
	case len(part) < count:
		return tooShort
	}
	return int(value)
}
