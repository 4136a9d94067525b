package mask

import (
	"regexp"
	"strings"
)

// singleQuoted returns plain as bash prints it in single quotes, without those around it. What shells print
// otherwise has escape sequences.
func singleQuoted(plain string) string { return strings.ReplaceAll(plain, "'", `'\''`) }

// dashQuoted returns plain as dash prints it in single quotes, with runs of those in double quotes. At its
// ends dash opens no quotes after such a run.
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

var singleQuotes = regexp.MustCompile(`'+`)
