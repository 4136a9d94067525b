package people

import (
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"strings"
	"unicode"
)

// DrawAvatar writes a picture of a person's initials, in SVG.
func DrawAvatar(w io.Writer, name, login string) {
	_, _ = fmt.Fprintf(w, picture, hue(login), html.EscapeString(initials(name, login))) // fails if the client has gone
}

// picture has white letters, which are legible on every hue at this lightness.
const picture = `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80" viewBox="0 0 80 80">` +
	`<rect width="80" height="80" fill="hsl(%d,60%%,30%%)"/>` +
	`<text x="40" y="40" fill="#fff" font-family="Inter,system-ui,sans-serif" font-size="32" font-weight="600"` +
	` text-anchor="middle" dominant-baseline="central">%s</text></svg>` + "\n"

func hue(login string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(login)) // never fails
	return sum.Sum32() % 360
}

// initials returns the first letters of the first and the last word of a name.
func initials(name, login string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) == 0 {
		words = []string{login}
	}
	first, last := []rune(words[0])[:1], []rune{}
	if len(words) > 1 {
		last = []rune(words[len(words)-1])[:1]
	}
	return strings.ToUpper(string(first) + string(last))
}
