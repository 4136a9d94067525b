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

// Sentence is what a person is told of a refusal: of a form, what is wrong with each of
// its fields that is, as they are called on pages.
func Sentence(r *client.Refused) string {
	if r.Code == "role_required" {
		return needed(r)
	}
	if m := ofSignIn.FindStringSubmatch(r.Message); m != nil {
		return called(m[1]) + " is missing or not valid."
	}
	if r.Code != "validation_failed" {
		return r.Message
	}
	var told []string
	for _, name := range slices.Sorted(maps.Keys(r.Details)) {
		if text := r.Field(name); text != "" {
			told = append(told, called(name)+" "+plain(text)+".")
		}
	}
	return cmp.Or(strings.Join(told, " "), r.Message)
}

// ofSignIn is what Better Auth says of a field, in words for programs.
var ofSignIn = regexp.MustCompile(`^\[body\.(\w+)\] `)

// fields are the names of the API's fields on pages.
var fields = map[string]string{
	"action": "The answer", "after": "The page", "at": "The time", "body": "The text", "cursor": "The page", "email": "The email address",
	"format": "The format", "from": "The time", "fromSeq": "The first event", "invitationId": "The invitation",
	"issueNumber": "The issue number", "labels": "Labels", "limit": "The page", "name": "The name", "note": "The text",
	"offset": "The page", "password": "The password", "q": "The search", "reason": "The reason", "repo": "The repository",
	"repoId": "The repository", "role": "The role", "scopes": "Scopes", "seq": "The event", "slug": "The slug", "title": "The title",
	"to":    "The time",
	"token": "The session", "toSeq": "The last event", "value": "The value",
}

func called(field string) string {
	first, _, _ := strings.Cut(field, ".")
	return cmp.Or(fields[strings.TrimRight(first, "[]0123456789")], "The input")
}

// plain says what is wrong with a field to somebody who does not write programs.
func plain(text string) string {
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

// needed names the roles that would not have been refused.
func needed(r *client.Refused) string {
	var roles []string
	if r.Detail("required", &roles); len(roles) == 0 {
		return r.Message
	}
	return "Only " + kit.An(strings.Join(roles, " or ")) + " can do this."
}
