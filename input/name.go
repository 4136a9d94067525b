package input

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/fault"
)

// MaxName is how many characters the name of a person or a workspace has at most.
const MaxName = 100

const maxUserAgent = 256 // characters

// Name returns the form in which a name is kept that a person chose: each run of
// spaces is one space. The error is about the named field of their request.
func Name(field, s string) (name string, err error) {
	switch name = fold(s); {
	case name == "" || utf8.RuneCountInString(name) > MaxName:
		return "", fault.Field(field, "must have 1 to %d characters", MaxName)
	case strings.ContainsFunc(s, unseen) || !utf8.ValidString(s):
		return "", fault.Field(field, "must not have control characters, or others that nobody sees")
	}
	if err := NoTokens(map[string]string{field: name}); err != nil {
		return "", err
	}
	return name, nil
}

// CleanName returns what of a name that somebody else gave a person can be kept, ""
// if nothing can. Of a token nothing is. [Name] takes it as it is.
func CleanName(s string) string { return Cut(Redact(fold(scrub(s, ' '))), MaxName) }

// UserAgent returns what of a caller's word on itself can be kept. Of a token nothing is.
func UserAgent(s string) string { return Cut(Redact(scrub(s, utf8.RuneError)), maxUserAgent) }

// Cut returns the first characters of s, without a space at their end.
func Cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		s = strings.TrimRight(string(runes[:most]), blank)
	}
	return s
}

// scrub makes s one line that reads as it is written. What separates words becomes
// a space, other control characters become control.
func scrub(s string, control rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return control
		case unseen(r):
			return -1
		}
		return r
	}, s)
}

// blank is what may stand between words and is nothing by itself.
const blank = " " + string(nonJoiner) + string(joiner)

// nonJoiner and joiner are seen in what they do to their neighbours: in Persian and
// the scripts of India, and in emoji of several.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

func fold(s string) string { return strings.Trim(strings.Join(strings.Fields(s), " "), blank) }

// unseen reports whether a character is one that breaks lines, turns the direction
// of the text around it in a log or a list, or is not seen at all.
func unseen(r rune) bool {
	switch {
	case r == nonJoiner || r == joiner:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Blank reports whether nothing of s is seen.
func Blank(s string) bool { return fold(scrub(s, ' ')) == "" }
