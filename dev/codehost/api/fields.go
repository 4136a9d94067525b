package api

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limits of what is written, in characters.
const (
	maxTitle = 256
	MaxText  = 65536 // of an issue or a comment
)

// NodeID is an id of GitHub's other interface.
func NodeID(kind string, id int64) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "0%d:%s%d", len(kind), kind, id))
}

// TextOrNull is null for "".
func TextOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Stamp formats a time as GitHub does.
func Stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// StampOrNull formats a time that may be missing.
func StampOrNull(at *time.Time) any {
	if at == nil {
		return nil
	}
	return Stamp(*at)
}

// Escaped escapes a name for a path, but for its slashes.
func Escaped(name string) string { return strings.ReplaceAll(url.PathEscape(name), "%2F", "/") }

// RepositoryLinks are the addresses that a repository names, below its own.
var RepositoryLinks = map[string]string{
	"archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
	"branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}", "comments_url": "/comments{/number}",
	"commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}", "contents_url": "/contents/{+path}",
	"contributors_url": "/contributors", "deployments_url": "/deployments", "downloads_url": "/downloads", "events_url": "/events",
	"forks_url": "/forks", "git_commits_url": "/git/commits{/sha}", "git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}",
	"hooks_url": "/hooks", "issue_comment_url": "/issues/comments{/number}", "issue_events_url": "/issues/events{/number}",
	"issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}", "labels_url": "/labels{/name}", "languages_url": "/languages",
	"merges_url": "/merges", "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
	"pulls_url": "/pulls{/number}", "releases_url": "/releases{/id}", "stargazers_url": "/stargazers", "statuses_url": "/statuses/{sha}",
	"subscribers_url": "/subscribers", "subscription_url": "/subscription", "tags_url": "/tags", "teams_url": "/teams",
	"trees_url": "/git/trees{/sha}", "url": "",
}

// CheckText checks a title and a body.
func CheckText(resource, title, body string) error {
	switch {
	case strings.TrimSpace(title) == "":
		return Invalid(resource, "title", "missing_field", "")
	case len([]rune(title)) > maxTitle:
		return Invalid(resource, "title", "custom", "title is too long (maximum is 256 characters)")
	case len([]rune(body)) > MaxText:
		return Invalid(resource, "body", "custom", "body is too long (maximum is 65536 characters)")
	}
	return nil
}

// LabelNames reads labels, each a name or an object with a name.
func LabelNames(list []any) (names []string) {
	for _, one := range list {
		if fields, ok := one.(map[string]any); ok {
			one = fields["name"]
		}
		if name, ok := one.(string); ok && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
