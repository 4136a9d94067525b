package input

import (
	"strings"
	"unicode/utf8"
)

const (
	maxRef    = 245 // bytes
	maxBranch = 200
)

// RefRule returns the rule, following "must", that text breaks as the full name of a git ref, or "". The rules are those
// of git check-ref-format, and ours for all names: a bounded length, and characters that one can see.
func RefRule(text string) string {
	if !strings.HasPrefix(text, "refs/") {
		return "begin with refs/, such as refs/heads/main"
	}
	if len(text) > maxRef {
		return "have 245 bytes at most"
	}
	return refRule(text)
}

// BranchRule is RefRule for the name of a branch, which stands after refs/heads/.
func BranchRule(text string) string {
	switch {
	case text == "" || text == "@" || text == "HEAD":
		return "be the name of a branch, such as main"
	case strings.HasPrefix(text, "-"):
		return "not begin with a hyphen"
	case len(text) > maxBranch:
		return "have 200 bytes at most"
	}
	return refRule("refs/heads/" + text)
}

func refRule(ref string) string {
	switch {
	case !utf8.ValidString(ref) || Visible(ref) != ref:
		return "be of characters that one can see"
	case strings.Contains(ref, ".."):
		return "not contain two dots in a row"
	case strings.Contains(ref, "@{"):
		return "not contain @{"
	case strings.ContainsAny(ref, " ~^:?*[\\"):
		return "not contain spaces or any of ~ ^ : ? * [ and backslashes"
	case strings.HasSuffix(ref, "."):
		return "not end with a dot"
	}
	for part := range strings.SplitSeq(ref, "/") {
		switch {
		case part == "":
			return "not end with a slash, or contain two in a row"
		case strings.HasPrefix(part, "."):
			return "not have a part that begins with a dot"
		case strings.HasSuffix(part, ".lock"):
			return "not have a part that ends with .lock"
		}
	}
	return ""
}
