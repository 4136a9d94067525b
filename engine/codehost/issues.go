package codehost

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"svc/engine/client"
	"svc/input"
)

const (
	hostPage = 100 // the largest page of the host, which may give less
	maxPages = 10  // that are read for one answer
)

// An issue is an issue or, at hosts whose lists mix them, a pull request.
type issue struct {
	client.Issue
	pull bool
}

// A comment is one on an issue.
type comment struct {
	id   int64
	body string
}

// Issues reads the host's list from its beginning, since it may mix pull requests into it and knows no number of
// issues. Of very long lists it reads the newest only.
func (h hosted) Issues(ctx context.Context, in client.IssuesInput) (client.IssuesResult, error) {
	result := client.IssuesResult{Issues: []client.Issue{}}
	perPage := min(max(in.PerPage, 1), hostPage)
	first := (max(in.Page, 1) - 1) * perPage
	query := input.SearchText(in.Query)
	page := 1
	for range maxPages {
		list, next, err := h.issues(ctx, in.Label, page)
		if err != nil {
			return result, failure(ctx, err)
		}
		for _, i := range list {
			if i.pull || !strings.Contains(input.SearchText(i.Title), query) {
				continue
			}
			if result.Total >= first && len(result.Issues) < perPage {
				i.Body = ""
				result.Issues = append(result.Issues, i.Issue)
			}
			result.Total++
		}
		if next == 0 {
			return result, nil
		}
		page = next
	}
	result.Total = -1
	return result, nil
}

func (h hosted) Issue(ctx context.Context, number int) (client.Issue, error) {
	i, err := h.issue(ctx, number)
	if gone(err) || err == nil && i.pull {
		return client.Issue{}, &client.Failure{Class: client.Permanent, Code: client.CodeNoIssue, Message: "The code host has no such issue."}
	}
	return i.Issue, failure(ctx, err)
}

// gone reports whether the host has no such thing, or none any more.
func gone(err error) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusGone}, statusOf(err))
}

func (h hosted) Comment(ctx context.Context, number int, marker, text string) error {
	if number == 0 {
		return nil
	}
	body := marked(text, marker)
	for page := 1; page != 0 && page <= maxPages; {
		list, next, err := h.comments(ctx, number, page)
		if gone(err) {
			return nil // the issue is no longer there
		}
		if err != nil {
			return failure(ctx, err)
		}
		for _, c := range list {
			switch {
			case !strings.Contains(c.body, mark(marker)):
				continue
			case c.body == body:
				return nil
			}
			return failure(ctx, h.editComment(ctx, c.id, body))
		}
		page = next
	}
	return failure(ctx, h.comment(ctx, number, body))
}

// mark returns a marker as text that people do not see.
func mark(marker string) string {
	return "<!-- " + strings.NewReplacer("--", "", ">", "", "\n", " ").Replace(marker) + " -->"
}

func marked(text, marker string) string {
	if strings.Contains(text, mark(marker)) {
		return text
	}
	return strings.TrimRight(text, "\n") + "\n\n" + mark(marker)
}
