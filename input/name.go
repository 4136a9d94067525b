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
	case strings.ContainsFunc(s, invisible) || !utf8.ValidString(s):
		return "", fault.Field(field, "must not have control characters, or others that nobody sees")
	}
	if err := NoTokens(map[string]string{field: name}); err != nil {
		return "", err
	}
	return name, nil
}

// CleanName returns the storable part of a name that somebody else gave a person, "" if
// there is none. Tokens are redacted. [Name] accepts the result unchanged.
func CleanName(s string) string { return Truncate(Redact(trimSpaces(toOneLine(s, ' '))), MaxName) }

// CleanText returns the storable part of a text that a person wrote about something, on one line.
func CleanText(s string) string { return trimSpaces(toOneLine(s, ' ')) }

// UserAgent returns the storable part of a User-Agent header. Tokens are redacted.
func UserAgent(s string) string { return Truncate(Redact(toOneLine(s, utf8.RuneError)), maxUserAgent) }

// Truncate returns the first most characters of s, without trailing space.
func Truncate(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		s = strings.TrimRight(string(runes[:most]), blank)
	}
	return s
}

// toOneLine returns s as one line of visible characters. White space becomes a space, other
// control characters become control.
func toOneLine(s string, control rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r):
			return control
		case invisible(r):
			return -1
		}
		return r
	}, s)
}

// blank lists characters that may separate words and that are trimmed at the ends.
const blank = " " + string(nonJoiner) + string(joiner)

// nonJoiner and joiner are invisible but change how their neighbours look, in Persian, in
// Indian scripts and in composed emoji.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

func trimSpaces(s string) string { return strings.Trim(strings.Join(strings.Fields(s), " "), blank) }

// invisible reports whether a character breaks lines, changes the text direction in a log
// or a list, or cannot be seen.
func invisible(r rune) bool {
	switch {
	case r == nonJoiner || r == joiner:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Blank reports whether s has no visible character.
func Blank(s string) bool { return trimSpaces(toOneLine(s, ' ')) == "" }
