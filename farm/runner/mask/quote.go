package mask

import (
	"fmt"
	"regexp"
	"strings"
)

// quotings returns plain as shells print it, without the quotes around it: in lists of variables
// (export -p), traces (set -x), and by printf %q.
func quotings(plain string) []string {
	bare := special.ReplaceAllString(plain, `\${0}`)
	return []string{
		strings.ReplaceAll(plain, "'", `'\''`), // in single quotes, by bash
		dashQuoted(plain),
		specialInQuotes.ReplaceAllString(plain, `\${0}`), // in double quotes
		bare, tilde.ReplaceAllString(bare, `${1}\~`), // as a part of a word, and as a whole one
		first.ReplaceAllString(bare, `\${0}`), // which begins with a special character
		tilde.ReplaceAllString(first.ReplaceAllString(bare, `\${0}`), `${1}\~`),
		ansiC(plain, false), ansiC(plain, true),
	}
}

// dashQuoted returns plain in single quotes, with runs of those in double quotes. At its ends dash
// opens no quotes after such a run.
func dashQuoted(plain string) string {
	text := singleQuotes.ReplaceAllString(plain, `'"${0}"'`)
	if strings.HasPrefix(plain, "'") {
		text = text[1:]
	}
	if strings.HasSuffix(plain, "'") {
		text = text[:len(text)-1]
	}
	return text
}

var (
	singleQuotes    = regexp.MustCompile(`'+`)
	specialInQuotes = regexp.MustCompile(`["\\$\x60]`)
	special         = regexp.MustCompile(`[ !"$&'()*,;<>?\[\\\]^\x60{|}]`)
	first           = regexp.MustCompile(`^[#~]`)
	tilde           = regexp.MustCompile(`([:=])~`)
)

var ansiEscapes = map[byte]string{
	'\a': `\a`, '\b': `\b`, 0x1b: `\E`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\v': `\v`, '\\': `\\`, '\'': `\'`,
}

// ansiC returns plain as between $' and '. In some locales, all bytes that are not ASCII are octal.
func ansiC(plain string, octal bool) string {
	var b strings.Builder
	for _, c := range []byte(plain) {
		switch text, ok := ansiEscapes[c]; {
		case ok:
			b.WriteString(text)
		case c < ' ' || c == 0x7f || octal && c > 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
