package codehost

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
	"svc/events"
)

// publicAPI is the interface of github.com.
const publicAPI = "https://api.github.com"

// gitHub is a repository at GitHub, or at a host with the same interface.
type gitHub struct {
	owner, name string
	api         *github.Client
}

func newGitHub(owner, name string, api *url.URL, c *http.Client) (forge, error) {
	g := github.NewClient(c)
	g.BaseURL, g.DisableRateLimitCheck = api.JoinPath("/"), true
	return &gitHub{owner, name, g}, nil
}

func (g *gitHub) repository(ctx context.Context) (Repository, traits, error) {
	r, res, err := g.api.Repositories.Get(ctx, g.owner, g.name)
	if err != nil {
		return Repository{}, traits{}, err
	}
	denied := func(may *bool) bool { return may != nil && !*may } // what is absent is not told to this account
	return Repository{
			ID: strconv.FormatInt(r.GetID(), 10), Name: r.GetFullName(), Web: r.GetHTMLURL(), Clone: r.GetCloneURL(),
			DefaultBranch: r.GetDefaultBranch(), Private: r.GetPrivate(), RequestsLeft: res.Rate.Remaining,
		}, traits{
			archived: r.GetArchived(), reads: r.Permissions != nil && !r.GetPermissions()["push"], noIssues: denied(r.HasIssues),
			noMerge: denied(r.AllowMergeCommit), noSquash: denied(r.AllowSquashMerge),
		}, nil
}

func (g *gitHub) rules(ctx context.Context, branch, web, landing, method string) []client.Check {
	rules, _, err := g.api.Repositories.GetRulesForBranch(ctx, g.owner, g.name, url.PathEscape(branch), nil)
	if err != nil {
		return nil // hosts without rules answer 404
	}
	address := web + "/rules"
	var list []client.Check
	if len(rules.RequiredSignatures) > 0 {
		list = append(list, lack("signatures", "The target branch requires signed commits, and commits of runs have no signature.",
			"Exempt the account of the credential from the rule.", address))
	}
	if len(rules.MergeQueue) > 0 {
		list = append(list, lack("merge_queue", "The target branch requires the code host's merge queue, which runs do not use.",
			"Exempt the account of the credential from the rule.", address))
	}
	if len(rules.RequiredLinearHistory) > 0 && method != string(events.MergeSquash) {
		list = append(list, lack("linear_history", "The target branch allows no merge commits.", "Choose the merge method squash here.", address))
	}
	if len(rules.PullRequest) > 0 && landing == string(events.LandExactly) {
		list = append(list, lack("pull_requests", "The target branch changes only by pull requests.",
			"Let the code host merge, or exempt the account of the credential from the rule.", address))
	}
	for _, rule := range rules.PullRequest {
		if rule.Parameters.RequiredApprovingReviewCount > 0 {
			list = append(list, note("reviews", "The code host asks for reviews of its own before it merges into the target branch.", address))
			break
		}
	}
	if len(rules.RequiredStatusChecks) > 0 {
		list = append(list, note("status_checks", "The code host asks for checks of its own before it merges into the target branch.", address))
	}
	return list
}

func (g *gitHub) issues(ctx context.Context, label string, page int) (list []issue, next int, err error) {
	opts := &github.IssueListByRepoOptions{State: "open", Sort: "created", Direction: "desc"}
	opts.ListOptions = github.ListOptions{PerPage: hostPage, Page: page}
	if label != "" {
		opts.Labels = []string{label}
	}
	found, res, err := g.api.Issues.ListByRepo(ctx, g.owner, g.name, opts)
	if statusOf(err) == http.StatusGone { // the repository has no issues
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, i := range found {
		list = append(list, gitHubIssue(i))
	}
	return list, res.NextPage, nil
}

func (g *gitHub) issue(ctx context.Context, number int) (issue, error) {
	i, _, err := g.api.Issues.Get(ctx, g.owner, g.name, number)
	if err != nil {
		return issue{}, err
	}
	return gitHubIssue(i), nil
}

func gitHubIssue(i *github.Issue) issue {
	labels := []string{}
	for _, l := range i.Labels {
		labels = append(labels, l.GetName())
	}
	return issue{client.Issue{
		Number: i.GetNumber(), Title: i.GetTitle(), Body: i.GetBody(), Open: i.GetState() == "open", URL: i.GetHTMLURL(),
		Author: i.GetUser().GetLogin(), Labels: labels, CreatedAt: i.GetCreatedAt().Time, UpdatedAt: i.GetUpdatedAt().Time,
	}, i.IsPullRequest()}
}

func (g *gitHub) comments(ctx context.Context, issue, page int) (list []comment, next int, err error) {
	found, res, err := g.api.Issues.ListComments(ctx, g.owner, g.name, issue, &github.IssueListCommentsOptions{
		ListOptions: github.ListOptions{PerPage: hostPage, Page: page},
	})
	if err != nil {
		return nil, 0, err
	}
	for _, c := range found {
		list = append(list, comment{c.GetID(), c.GetBody()})
	}
	return list, res.NextPage, nil
}

func (g *gitHub) comment(ctx context.Context, issue int, body string) error {
	_, _, err := g.api.Issues.CreateComment(ctx, g.owner, g.name, issue, &github.IssueComment{Body: &body})
	return err
}

func (g *gitHub) editComment(ctx context.Context, id int64, body string) error {
	_, _, err := g.api.Issues.EditComment(ctx, g.owner, g.name, id, &github.IssueComment{Body: &body})
	return err
}
