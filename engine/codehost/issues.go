package codehost

import (
	"context"
	"net/http"
	"strings"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
	"svc/input"
)

const (
	hostPage = 100 // the largest page of the host
	maxPages = 10  // that are read for one answer
)

// Issues reads the host's list from its beginning, since it mixes pull requests into it and knows no number of
// issues. Of very long lists it reads the newest only.
func (g *gitHub) Issues(ctx context.Context, in client.IssuesInput) (client.IssuesResult, error) {
	result := client.IssuesResult{Issues: []client.Issue{}}
	perPage := min(max(in.PerPage, 1), hostPage)
	first := (max(in.Page, 1) - 1) * perPage
	opts := &github.IssueListByRepoOptions{State: "open", Sort: "created", Direction: "desc"}
	opts.ListOptions = github.ListOptions{PerPage: hostPage, Page: 1}
	if in.Label != "" {
		opts.Labels = []string{in.Label}
	}
	query := input.SearchText(in.Query)
	for range maxPages {
		list, res, err := g.api.Issues.ListByRepo(ctx, g.owner, g.name, opts)
		if statusOf(err) == http.StatusGone { // the repository has no issues
			return result, nil
		}
		if err != nil {
			return result, failure(ctx, err)
		}
		for _, i := range list {
			if i.IsPullRequest() || !strings.Contains(input.SearchText(i.GetTitle()), query) {
				continue
			}
			if result.Total >= first && len(result.Issues) < perPage {
				issue := issueOf(i)
				issue.Body = ""
				result.Issues = append(result.Issues, issue)
			}
			result.Total++
		}
		if res.NextPage == 0 {
			return result, nil
		}
		opts.ListOptions.Page = res.NextPage
	}
	result.Total = -1
	return result, nil
}

func (g *gitHub) Issue(ctx context.Context, number int) (client.Issue, error) {
	i, _, err := g.api.Issues.Get(ctx, g.owner, g.name, number)
	code := statusOf(err)
	if code == http.StatusNotFound || code == http.StatusGone || err == nil && i.IsPullRequest() {
		return client.Issue{}, &client.Failure{Class: client.Permanent, Code: client.CodeNoIssue, Message: "The code host has no such issue."}
	}
	if err != nil {
		return client.Issue{}, failure(ctx, err)
	}
	return issueOf(i), nil
}

func issueOf(i *github.Issue) client.Issue {
	issue := client.Issue{
		Number: i.GetNumber(), Title: i.GetTitle(), Body: i.GetBody(), Open: i.GetState() == "open", URL: i.GetHTMLURL(),
		Author: i.GetUser().GetLogin(), Labels: []string{}, CreatedAt: i.GetCreatedAt().Time, UpdatedAt: i.GetUpdatedAt().Time,
	}
	for _, l := range i.Labels {
		issue.Labels = append(issue.Labels, l.GetName())
	}
	return issue
}

func (g *gitHub) Comment(ctx context.Context, issue int, marker, text string) error {
	if issue == 0 {
		return nil
	}
	body := marked(text, marker)
	opts := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: hostPage}}
	for range maxPages {
		list, res, err := g.api.Issues.ListComments(ctx, g.owner, g.name, issue, opts)
		if code := statusOf(err); code == http.StatusNotFound || code == http.StatusGone {
			return nil // the issue is no longer there
		}
		if err != nil {
			return failure(ctx, err)
		}
		for _, c := range list {
			if !strings.Contains(c.GetBody(), mark(marker)) {
				continue
			}
			if c.GetBody() == body {
				return nil
			}
			_, _, err := g.api.Issues.EditComment(ctx, g.owner, g.name, c.GetID(), &github.IssueComment{Body: &body})
			return failure(ctx, err)
		}
		if res.NextPage == 0 {
			break
		}
		opts.ListOptions.Page = res.NextPage
	}
	_, _, err := g.api.Issues.CreateComment(ctx, g.owner, g.name, issue, &github.IssueComment{Body: &body})
	return failure(ctx, err)
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
