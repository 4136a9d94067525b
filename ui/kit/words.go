package kit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/input"
)

// An puts the article before a noun.
func An(noun string) string {
	if noun != "" && strings.ContainsRune("AEIOUaeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Words makes words for people of a word for machines, such as a state.
func Words(word string) string {
	first, size := utf8.DecodeRuneInString(word)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + strings.ReplaceAll(word[size:], "_", " ")
}

// Role is how a role is called: the former one "member" reads Viewer.
func Role(role string) string {
	if role == "member" {
		return "Viewer"
	}
	return role
}

// Title is a title as it is shown, also if nothing of it is seen.
func Title(title string) string {
	if input.Blank(title) {
		return "(no title)"
	}
	return title
}
