package codehost

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
)

func (g *gitHub) pulls(ctx context.Context, branch string, page int) (list []pull, next int, err error) {
	return g.listPulls(ctx, &github.PullRequestListOptions{
		State: "all", Head: g.owner + ":" + branch, ListOptions: github.ListOptions{PerPage: hostPage, Page: page},
	})
}

func (g *gitHub) closedPulls(ctx context.Context) ([]pull, error) {
	list, _, err := g.listPulls(ctx, &github.PullRequestListOptions{
		State: "closed", Sort: "updated", Direction: "desc", ListOptions: github.ListOptions{PerPage: hostPage},
	})
	return list, err
}

func (g *gitHub) listPulls(ctx context.Context, opts *github.PullRequestListOptions) (list []pull, next int, err error) {
	found, res, err := g.api.PullRequests.List(ctx, g.owner, g.name, opts)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range found {
		list = append(list, gitHubPull(p))
	}
	return list, res.NextPage, nil
}

func (g *gitHub) pull(ctx context.Context, number int) (pull, error) {
	p, _, err := g.api.PullRequests.Get(ctx, g.owner, g.name, number)
	if err != nil {
		return pull{}, err
	}
	return gitHubPull(p), nil
}

func gitHubPull(p *github.PullRequest) pull {
	from, into := p.GetHead().GetRepo(), p.GetBase().GetRepo()
	one := pull{
		number: p.GetNumber(), url: p.GetHTMLURL(), body: p.GetBody(), open: p.GetState() == "open", merged: p.GetMerged(),
		branch: p.GetHead().GetRef(), head: p.GetHead().GetSHA(), base: p.GetBase().GetRef(),
		ours: from == nil || from.GetID() == into.GetID(), mergeCommit: p.GetMergeCommitSHA(), mergedBy: p.GetMergedBy().GetLogin(),
	}
	if id := into.GetID(); id != 0 {
		one.repository = strconv.FormatInt(id, 10)
	}
	return one
}

func (g *gitHub) openPull(ctx context.Context, in client.ProposeInput, body string) (pull, error) {
	p, _, err := g.api.PullRequests.Create(ctx, g.owner, g.name, &github.NewPullRequest{
		Title: &in.Title, Head: &in.Branch, Base: &in.Base, Body: &body,
	})
	if err != nil {
		return pull{}, err
	}
	return gitHubPull(p), nil
}

func (g *gitHub) closePull(ctx context.Context, number int) error {
	closed := "closed"
	_, _, err := g.api.PullRequests.Edit(ctx, g.owner, g.name, number, &github.PullRequest{State: &closed})
	return err
}

func (g *gitHub) closedBy(ctx context.Context, number int) string {
	i, _, err := g.api.Issues.Get(ctx, g.owner, g.name, number)
	if err != nil {
		return ""
	}
	return i.GetClosedBy().GetLogin()
}

func (g *gitHub) merge(ctx context.Context, in client.MergeInput, method string) error {
	result, res, err := g.api.PullRequests.Merge(ctx, g.owner, g.name, in.PullRequest, in.Message, &github.PullRequestOptions{
		CommitTitle: in.Title, SHA: in.Head, MergeMethod: method, DontDefaultIfBlank: true,
	})
	if err == nil && !result.GetMerged() {
		err = &refusal{http.StatusMethodNotAllowed, res.Header, cut(result.GetMessage())}
	}
	return err
}

func (g *gitHub) status(ctx context.Context, commit string) (state, text string, err error) {
	list, _, err := g.api.Repositories.ListStatuses(ctx, g.owner, g.name, commit, &github.ListOptions{PerPage: hostPage})
	for _, s := range list { // newest first
		if s.GetContext() == statusContext {
			return s.GetState(), s.GetDescription(), nil
		}
	}
	return "", "", err
}

func (g *gitHub) setStatus(ctx context.Context, commit, state, text string) error {
	name := statusContext
	_, _, err := g.api.Repositories.CreateStatus(ctx, g.owner, g.name, commit,
		&github.RepoStatus{State: &state, Context: &name, Description: &text})
	return err
}
