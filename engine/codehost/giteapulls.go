package codehost

import (
	"context"
	"net/http"
	"strconv"

	"code.gitea.io/sdk/gitea"

	"svc/engine/client"
)

// pulls lists those of all branches, the last ones first: the host's list knows no branch.
func (g *giteaForge) pulls(ctx context.Context, _ string, page int) (list []pull, next int, err error) {
	return g.listPulls(ctx, gitea.StateAll, page)
}

func (g *giteaForge) closedPulls(ctx context.Context) ([]pull, error) {
	list, _, err := g.listPulls(ctx, gitea.StateClosed, 1)
	return list, err
}

func (g *giteaForge) listPulls(ctx context.Context, state gitea.StateType, page int) (list []pull, next int, err error) {
	found, res, err := g.in(ctx).ListRepoPullRequests(g.owner, g.name, gitea.ListPullRequestsOptions{
		ListOptions: giteaPage(page), State: state, Sort: "recentupdate",
	})
	if err != nil {
		return nil, 0, err
	}
	for _, p := range found {
		list = append(list, giteaPull(p))
	}
	return list, res.NextPage, nil
}

func (g *giteaForge) pull(ctx context.Context, number int) (pull, error) {
	p, _, err := g.in(ctx).GetPullRequest(g.owner, g.name, int64(number))
	if err != nil {
		return pull{}, err
	}
	return giteaPull(p), nil
}

// giteaPull leaves out whether the host thinks that it can be merged, which is wrong for seconds, or for good. The
// branch is the label: the host has another ref in its place once the branch is deleted.
func giteaPull(p *gitea.PullRequest) pull {
	one := pull{
		number: int(p.Index), url: p.HTMLURL, body: p.Body, open: p.State == gitea.StateOpen, merged: p.HasMerged, mergedBy: login(p.MergedBy),
	}
	if p.HasMerged && p.MergedCommitID != nil {
		one.mergeCommit = *p.MergedCommitID
	}
	if p.Head != nil && p.Base != nil {
		one.branch, one.head, one.base, one.ours = p.Head.Name, p.Head.Sha, p.Base.Ref, p.Head.RepoID == p.Base.RepoID
		if p.Base.RepoID != 0 {
			one.repository = strconv.FormatInt(p.Base.RepoID, 10)
		}
	}
	return one
}

func (g *giteaForge) openPull(ctx context.Context, in client.ProposeInput, body string) (pull, error) {
	p, _, err := g.in(ctx).CreatePullRequest(g.owner, g.name, gitea.CreatePullRequestOption{
		Head: in.Branch, Base: in.Base, Title: in.Title, Body: body,
	})
	if err != nil {
		return pull{}, err
	}
	return giteaPull(p), nil
}

func (g *giteaForge) closePull(ctx context.Context, number int) error {
	closed := gitea.StateClosed
	_, _, err := g.in(ctx).EditPullRequest(g.owner, g.name, int64(number), gitea.EditPullRequestOption{State: &closed})
	return err
}

// closedBy looks through the first page of what happened to the pull request.
func (g *giteaForge) closedBy(ctx context.Context, number int) (who string) {
	list, _, _ := g.in(ctx).ListIssueTimeline(g.owner, g.name, int64(number), gitea.ListIssueCommentOptions{ListOptions: giteaPage(1)})
	for _, e := range list {
		if e.Type == "close" {
			who = login(e.Poster)
		}
	}
	return who
}

func (g *giteaForge) merge(ctx context.Context, in client.MergeInput, method string) error {
	done, res, err := g.in(ctx).MergePullRequest(g.owner, g.name, int64(in.PullRequest), gitea.MergePullRequestOption{
		Style: gitea.MergeStyle(method), Title: in.Title, Message: in.Message, HeadCommitId: in.Head,
	})
	if err == nil && !done {
		err = &refusal{http.StatusMethodNotAllowed, res.Header, res.Status}
	}
	return err
}

// status looks for the newest one by its number, since the host orders by seconds.
func (g *giteaForge) status(ctx context.Context, commit string) (state, text string, err error) {
	list, _, err := g.in(ctx).ListStatuses(g.owner, g.name, commit, gitea.ListStatusesOption{ListOptions: giteaPage(1)})
	newest := &gitea.Status{}
	for _, s := range list {
		if s.Context == statusContext && s.ID > newest.ID {
			newest = s
		}
	}
	return string(newest.State), newest.Description, err
}

func (g *giteaForge) setStatus(ctx context.Context, commit, state, text string) error {
	_, _, err := g.in(ctx).CreateStatus(g.owner, g.name, commit, gitea.CreateStatusOption{
		State: gitea.StatusState(state), Description: text, Context: statusContext,
	})
	return err
}
