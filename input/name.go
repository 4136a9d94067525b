package input

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/fault"
)

// MaxName is the maximum number of characters in the name of a person or a workspace.
const MaxName = 100

const maxUserAgent = 256 // characters

// Name returns the stored form of a name that a person chose: each run of spaces becomes
// one space. The error names the field of the request.
func Name(field, s string) (name string, err error) {
	switch name = trimSpaces(s); {
	case name == "" || utf8.RuneCountInString(name) > MaxName:
		return "", fault.Field(field, "must have 1 to %d characters", MaxName)
	case strings.ContainsFunc(s, invisible) || Visible(name) != name || !utf8.ValidString(s):
		return "", fault.Field(field, "must not have control characters, or others that nobody sees")
	case limitMarks(name) != name:
		return "", fault.Field(field, "must not have more than %d marks on one character", maxMarks)
	}
	if err := NoTokens(map[string]string{field: name}); err != nil {
		return "", err
	}
	return name, nil
}

// CleanName returns the storable part of a name that somebody else gave a person, "" if
// there is none. Tokens are redacted. [Name] accepts the result unchanged.
func CleanName(s string) string { return Truncate(MaskTokens(trimSpaces(toOneLine(s, ' '))), MaxName) }

// CleanText returns the storable part of a text that a person wrote about something, on one line.
func CleanText(s string) string { return trimSpaces(toOneLine(s, ' ')) }

// UserAgent returns the storable part of a User-Agent header. Tokens are redacted.
func UserAgent(s string) string {
	return Truncate(MaskTokens(toOneLine(s, utf8.RuneError)), maxUserAgent)
}

// Truncate returns the first most characters of s, without trailing space and without what would
// have changed a character that is cut off.
func Truncate(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		s = strings.TrimRightFunc(string(runes[:most]), func(r rune) bool {
			return strings.ContainsRune(blank, r) || unicode.Is(unicode.Variation_Selector, r)
		})
	}
	return s
}

// toOneLine returns s as one line of visible characters. White space becomes a space, other
// control characters become control.
func toOneLine(s string, control rune) string {
	seen := Visible(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return control
		}
		return r
	}, s))
	if limited := limitMarks(seen); limited != seen {
		return Visible(limited) // without joiners of marks that are gone
	}
	return seen
}

// maxMarks is how many marks may follow one character. Burmese and Tibetan syllables have up to seven or so.
// More only cover the lines above and below a name.
const maxMarks = 8

// limitMarks returns s without the marks beyond maxMarks on a character. Joiners and variation selectors
// separate no marks.
func limitMarks(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == joiner || r == nonJoiner || unicode.Is(unicode.Variation_Selector, r):
		case !unicode.Is(unicode.M, r):
			marks = 0
		case marks == maxMarks:
			return -1
		default:
			marks++
		}
		return r
	}, s)
}

// blank lists characters that may separate words and that are trimmed at the ends.
const blank = " " + string(nonJoiner) + string(joiner)

// Characters that are invisible themselves but change how their neighbours look, in Persian, in
// Indian scripts and in composed emoji.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'

	textStyle  = '\ufe0e' // variation selectors
	emojiStyle = '\ufe0f'
	keycap     = '\u20e3' // a mark around the character before it
)

func trimSpaces(s string) string { return strings.Trim(strings.Join(strings.Fields(s), " "), blank) }

// Visible returns s without the characters that are invisible where they are. Otherwise names that
// look alike could differ.
func Visible(s string) string {
	var kept []rune
	var before rune
	characters := append([]rune(s), 0)
	for i, r := range characters[:len(characters)-1] {
		if isVisible(before, r, characters[i+1]) {
			kept, before = append(kept, r), r
		}
	}
	return string(kept)
}

// isVisible reports whether r can be seen, or changes what can be seen, between two characters, of
// which the first is 0 at the start and the last at the end.
func isVisible(before, r, after rune) bool {
	switch {
	case r == joiner || r == nonJoiner:
		return joins(before) && joins(after) && !unicode.Is(unicode.Variation_Selector, after) // which joins nothing
	case unicode.Is(unicode.Variation_Selector, r):
		return selects(before, r, after)
	case unicode.Is(unicode.M, r):
		return before != 0 && before != ' ' && !invisible(r) // it is drawn on the character before it
	}
	return !invisible(r)
}

// joining are the scripts in which a joiner changes how letters are drawn.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
	unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan,
}

// joined are the symbols below U+1F000 that are parts of composed emoji.
const joined = "↔↕☠♀♂⚕⚖⚧⛓⛹✈❄❤➡⬛"

// joins reports whether a joiner next to r makes a difference.
func joins(r rune) bool {
	return r == emojiStyle || symbol(r) && (r >= 0x1f000 || strings.ContainsRune(joined, r)) ||
		unicode.In(r, joining...) && unicode.In(r, unicode.L, unicode.M)
}

// selects reports whether a variation selector makes a difference between two characters.
func selects(before, selector, after rune) bool {
	switch {
	case selector >= 0xe0100: // forms of ideographs, as in Japanese names
		return unicode.Is(unicode.Han, before)
	case unicode.Is(unicode.Mongolian, selector):
		return unicode.Is(unicode.Mongolian, before) && unicode.Is(unicode.L, before)
	case '0' <= before && before <= '9' || before == '#' || before == '*':
		return selector == emojiStyle && after == keycap
	}
	return (selector == textStyle || selector == emojiStyle) && symbol(before)
}

// symbol reports whether r is a symbol beyond those of keyboards; emoji are among them.
func symbol(r rune) bool { return r >= 0x2000 && unicode.Is(unicode.S, r) && !invisible(r) }

// Symbols that Unicode says are drawn, but as nothing.
const (
	brailleBlank = '\u2800'
	nullNotehead = '\U0001d159'
)

// invisible reports whether a character breaks lines, changes the text direction in a log
// or a list, or cannot be seen anywhere.
func invisible(r rune) bool {
	switch {
	case r == nonJoiner || r == joiner || unicode.Is(unicode.Variation_Selector, r): // see isVisible
		return false
	case r == brailleBlank || r == nullNotehead:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Noncharacter_Code_Point)
}

// Blank reports whether s has no visible character.
func Blank(s string) bool { return trimSpaces(toOneLine(s, ' ')) == "" }
