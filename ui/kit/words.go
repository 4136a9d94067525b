package kit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/input"
)

// An returns the noun with its indefinite article.
func An(noun string) string {
	if noun != "" && strings.ContainsRune("AEIOUaeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Or joins names: "Ada, Ben or Mia".
func Or(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Words turns an identifier, such as a state, into words.
func Words(word string) string {
	first, size := utf8.DecodeRuneInString(word)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + strings.ReplaceAll(word[size:], "_", " ")
}

// LogState describes whether a job's log is complete, "" as long as that is unknown.
func LogState(integrity string, truncated bool) string {
	text := Words(integrity)
	switch {
	case !truncated:
		return text
	case text == "":
		return "Cut at its limit"
	}
	return text + " (cut at its limit)"
}

// Role returns the name of a role on pages. The legacy role "member" is shown as Viewer.
func Role(role string) string {
	if role == "member" {
		return "Viewer"
	}
	return role
}

// SystemActors are the parts of the service that act without a person, by their names in the log.
var SystemActors = map[string]string{"loop": "Run automation", "system": "The service", "farm": "The build farm", "others": "Others"}

// Actor returns what an actor's name in the log stands for.
func Actor(name string) string {
	if words := SystemActors[name]; words != "" {
		return words
	}
	return name
}

// RunIcon returns the name of a run's icon, by its outcome, what it waits for, or its stage.
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

// RunTone returns the tone of a run's status.
func RunTone(status string) Tone {
	switch status {
	case "merged":
		return Good
	case "failed":
		return Bad
	case "cancelled", "rejected", "queued":
		return Plain
	case "needs_input", "awaiting_approval":
		return Warn
	}
	return Accent
}

// JobIcon returns the name of a job's icon, by its state.
func JobIcon(state string) string {
	switch state {
	case "succeeded":
		return "circle-check"
	case "failed", "lost":
		return "circle-x"
	case "timed_out", "expired":
		return "hourglass"
	case "cancelled":
		return "ban"
	}
	return "clock"
}

// JobTone returns the colour of a job's state.
func JobTone(state string) Tone {
	switch state {
	case "succeeded":
		return Good
	case "failed", "timed_out", "lost", "expired":
		return Bad
	case "cancelling":
		return Warn
	case "running", "leased":
		return Accent
	}
	return Plain
}

// StageIcon returns the name of a stage's icon, by the stage's label.
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

// Title returns a title as pages show it, with a substitute if it has no visible characters.
func Title(title string) string {
	if input.Blank(title) {
		return "(no title)"
	}
	return title
}

// NameOrEmail returns a person's name, or the address if no name is known.
func NameOrEmail(name, email string) string {
	if name != "" {
		return name
	}
	return email
}
