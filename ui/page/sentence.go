package page

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
)

// Sentence describes a refusal to a person. For an invalid form it lists each invalid field
// by its label on the page.
func Sentence(r *client.Refused) string {
	if r.Code == "role_required" {
		return requiredRoles(r)
	}
	if m := signInField.FindStringSubmatch(r.Message); m != nil {
		return fieldLabel(m[1]) + " is missing or not valid."
	}
	if r.Code != "validation_failed" {
		return r.Message
	}
	var told []string
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		if text := r.FieldError(name); text != "" {
			told = append(told, fieldSentence(fieldLabel(name), text))
		}
	}
	return cmp.Or(strings.Join(told, " "), r.Message)
}

// signInField matches a Better Auth message about one field of the request body.
var signInField = regexp.MustCompile(`^\[body\.(\w+)\] `)

// fields maps the API's field names to their labels on pages.
var fields = map[string]string{
	"action": "The answer", "after": "The page", "at": "The time", "body": "The text", "cursor": "The page", "email": "The email address",
	"format": "The format", "from": "The time", "fromSeq": "The first event", "invitationId": "The invitation",
	"issueNumber": "The issue number", "labels": "Labels", "limit": "The page", "name": "The name", "note": "The text",
	"offset": "The page", "password": "The password", "q": "The search", "reason": "The reason", "repo": "The repository",
	"repoId": "The repository", "role": "The role", "scopes": "Scopes", "seq": "The event", "slug": "The slug", "title": "The title",
	"branch": "The branch", "credential": "The credential", "implementer": "The implementer", "kind": "The code host",
	"maxActive": "Active runs", "maxFiles": "Files", "maxLines": "Lines", "protectedPaths": "Protected paths",
	"readCredential": "The credential for build machines",
	"requiredJobs":   "Required jobs", "rounds": "Rounds", "cents": "The budget", "url": "The address",
	"to":    "The time",
	"token": "The session", "toSeq": "The last event", "value": "The value",
}

// fieldLabel returns the label of the first element of a field's path, without its index.
func fieldLabel(field string) string {
	first, _, _ := strings.Cut(field, ".")
	return cmp.Or(fields[strings.TrimRight(first, "[]0123456789")], "The input")
}

// plainRule rewords a validation message for people who do not write programs.
func plainRule(text string) string {
	switch {
	case text == "must have 1 or more items":
		return "must not be empty"
	case text == "must be an id", strings.HasSuffix(text, "of an answer"):
		return "was not found"
	case strings.HasPrefix(text, "must be a time such as"):
		return "must be a date such as 2026-11-20"
	}
	return strings.ReplaceAll(text, "newest record", "newest event")
}

// requiredRoles says which roles may do what was refused, or repeats the message if it names none.
func requiredRoles(r *client.Refused) string {
	var roles []string
	if r.Detail("required", &roles); len(roles) == 0 {
		return r.Message
	}
	return "Only " + kit.An(strings.Join(roles, " or ")) + " can do this."
}
