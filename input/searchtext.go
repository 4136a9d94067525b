package input

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// plainLetters replaces letters that have no decomposition by those that people type for them.
var plainLetters = strings.NewReplacer(
	"ł", "l", "đ", "d", "ð", "d", "ø", "o", "ħ", "h", "ŧ", "t", "ı", "i", "æ", "ae", "œ", "oe", "þ", "th",
)

// SearchText returns a text in the form in which all searches compare: without case, diacritics and
// superfluous spaces. It depends on no locale.
func SearchText(text string) string {
	if isSearchText(text) {
		return text
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			text = plainLetters.Replace(withoutMarks(cases.Fold().String(withoutMarks(text))))
			break
		}
	}
	return strings.Join(strings.Fields(strings.ToLower(text)), " ")
}

// isSearchText reports whether a text is ASCII and has nothing to replace, as most keys and names.
func isSearchText(text string) bool {
	for i := range len(text) {
		c := text[i]
		blank := c == ' ' && (i == 0 || i == len(text)-1 || text[i-1] == ' ')
		if c < ' ' || c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' || blank {
			return false
		}
	}
	return true
}

func withoutMarks(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
}
