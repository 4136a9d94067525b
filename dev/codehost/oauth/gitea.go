package oauth

import (
	"slices"
	"strings"
)

// AllScopes grants everything at Gitea.
const AllScopes = "all"

// GiteaScopes returns the scopes that Gitea grants for a request. An unknown scope, or none besides
// those of OpenID Connect, grants everything.
func GiteaScopes(asked string) []string {
	var scopes []string
	for s := range strings.SplitSeq(asked, " ") {
		switch {
		case s == "" || slices.Contains([]string{"openid", "profile", "email", "groups"}, s):
		case isGiteaScope(s):
			scopes = append(scopes, s)
		default:
			return []string{AllScopes}
		}
	}
	if scopes == nil {
		return []string{AllScopes}
	}
	return scopes
}

func isGiteaScope(s string) bool {
	if s == AllScopes || s == "public-only" {
		return true
	}
	right, of, _ := strings.Cut(s, ":")
	return (right == "read" || right == "write") && slices.Contains([]string{
		"activitypub", "admin", "misc", "notification", "organization", "package", "issue", "repository", "user",
	}, of)
}
