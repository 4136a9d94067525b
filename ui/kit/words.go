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

// RunIcon is the sign of a run: of how it ended, of what it waits for, or of its stage.
func RunIcon(status, stage string) string {
	switch status {
	case "merged":
		return "git-merge"
	case "failed":
		return "circle-x"
	case "cancelled", "rejected":
		return "ban"
	case "needs_input", "awaiting_approval":
		return "inbox"
	}
	return StageIcon(stage)
}

// StageIcon is the sign of a stage, by its label.
func StageIcon(stage string) string {
	switch stage {
	case "Queued":
		return "clock"
	case "Analyze":
		return "search"
	case "Plan":
		return "list-checks"
	case "Implementing":
		return "code"
	case "Build farm":
		return "hammer"
	case "Self-review":
		return "eye"
	case "Merge":
		return "git-merge"
	}
	return "circle-dot"
}

// Title is a title as it is shown, also if nothing of it is seen.
func Title(title string) string {
	if input.Blank(title) {
		return "(no title)"
	}
	return title
}

// Called is how a person is called: by name, or by address where none is known.
func Called(name, email string) string {
	if name != "" {
		return name
	}
	return email
}
