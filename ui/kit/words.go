package kit

import "strings"

// An puts the article before a noun.
func An(noun string) string {
	if noun != "" && strings.ContainsRune("AEIOUaeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Role is how a role is called: the former one "member" reads Viewer.
func Role(role string) string {
	if role == "member" {
		return "Viewer"
	}
	return role
}
