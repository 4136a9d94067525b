package codehost

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
	"svc/events"
)

// statusContext names the run's status among those of a commit.
const statusContext = "svc/run"

// The states of a commit's status.
const (
	MarkPending = "pending"
	MarkSuccess = "success"
	MarkFailure = "failure"
)

func (g *gitHub) Propose(ctx context.Context, in client.ProposeInput) (client.ProposeResult, error) {
	pr, err := g.find(ctx, in)
	if err != nil || pr != nil {
		return proposed(pr), err
	}
	body := marked(in.Body, in.Marker)
	pr, _, err = g.api.PullRequests.Create(ctx, g.owner, g.name, &github.NewPullRequest{
		Title: &in.Title, Head: &in.Branch, Base: &in.Base, Body: &body,
	})
	if code := statusOf(err); code == http.StatusUnprocessableEntity || code == http.StatusConflict { // there may be one by now
		if found, again := g.find(ctx, in); again != nil || found != nil {
			return proposed(found), again
		}
	}
	return proposed(pr), failure(ctx, err)
}

func proposed(pr *github.PullRequest) client.ProposeResult {
	if pr == nil {
		return client.ProposeResult{}
	}
	return client.ProposeResult{Number: pr.GetNumber(), URL: pr.GetHTMLURL()}
}

// find returns the pull request of a run: the one with its marker in whatever state it is, or else an open one that
// somebody made of the same branch for the same target.
func (g *gitHub) find(ctx context.Context, in client.ProposeInput) (*github.PullRequest, error) {
	opts := &github.PullRequestListOptions{State: "all", Head: g.owner + ":" + in.Branch, ListOptions: github.ListOptions{PerPage: hostPage}}
	var open *github.PullRequest
	for range maxPages {
		list, res, err := g.api.PullRequests.List(ctx, g.owner, g.name, opts)
		if err != nil {
			return nil, failure(ctx, err)
		}
		for _, pr := range list {
			if pr.GetHead().GetRef() != in.Branch || !g.ours(pr) {
				continue
			}
			if strings.Contains(pr.GetBody(), mark(in.Marker)) {
				return pr, nil
			}
			if pr.GetState() == "open" && pr.GetBase().GetRef() == in.Base {
				open = pr
			}
		}
		if res.NextPage == 0 {
			break
		}
		opts.ListOptions.Page = res.NextPage
	}
	return open, nil
}

// ours reports whether the head of a pull request is in the repository itself.
func (g *gitHub) ours(pr *github.PullRequest) bool {
	head := pr.GetHead().GetRepo()
	return head == nil || head.GetID() == pr.GetBase().GetRepo().GetID()
}

func (g *gitHub) get(ctx context.Context, number int) (*github.PullRequest, error) {
	pr, _, err := g.api.PullRequests.Get(ctx, g.owner, g.name, number)
	if err != nil {
		return nil, failure(ctx, err)
	}
	if id := pr.GetBase().GetRepo().GetID(); g.r.HostID != "" && id != 0 && g.r.HostID != strconv.FormatInt(id, 10) {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeIdentity,
			Message: "Another repository has the name " + g.r.Name + " now."}
	}
	return pr, nil
}

func (g *gitHub) PullRequest(ctx context.Context, number int) (*client.PullRequest, error) {
	if number == 0 {
		return nil, nil
	}
	pr, err := g.get(ctx, number)
	if err != nil {
		return nil, err
	}
	p := &client.PullRequest{State: pr.GetState(), Head: pr.GetHead().GetSHA()}
	switch {
	case pr.GetMerged():
		p.State, p.MergeCommit, p.By = "merged", pr.GetMergeCommitSHA(), pr.GetMergedBy().GetLogin()
	case p.State == "closed":
		if i, _, err := g.api.Issues.Get(ctx, g.owner, g.name, number); err == nil {
			p.By = i.GetClosedBy().GetLogin()
		}
	}
	return p, nil
}

func (g *gitHub) Closed(ctx context.Context, folder string) ([]int, error) {
	list, _, err := g.api.PullRequests.List(ctx, g.owner, g.name, &github.PullRequestListOptions{
		State: "closed", Sort: "updated", Direction: "desc", ListOptions: github.ListOptions{PerPage: hostPage},
	})
	if err != nil {
		return nil, failure(ctx, err)
	}
	closed := []int{}
	for _, pr := range list {
		if strings.HasPrefix(pr.GetHead().GetRef(), folder+"/") && g.ours(pr) {
			closed = append(closed, pr.GetNumber())
		}
	}
	return closed, nil
}

func (*gitHub) Merges() bool { return true }

var (
	alreadyMerged = regexp.MustCompile(`(?i)already merged`)
	notForNow     = regexp.MustCompile(`(?i)base branch was modified|try again|in progress|is expected|pending|being (calculated|checked)|not mergeable`)
)

func (g *gitHub) Merge(ctx context.Context, in client.MergeInput) error {
	if in.Head == "" {
		return &client.Failure{Class: client.Permanent, Code: client.CodeHeadMoved, Message: "A merge needs the head that was approved."}
	}
	result, _, err := g.api.PullRequests.Merge(ctx, g.owner, g.name, in.PullRequest, in.Message, &github.PullRequestOptions{
		CommitTitle: in.Title, SHA: in.Head, MergeMethod: methodOf(in.Method), DontDefaultIfBlank: true,
	})
	answer, _ := errors.AsType[*github.ErrorResponse](err)
	switch code := statusOf(err); {
	case err == nil && result.GetMerged():
		return nil
	case err == nil:
		return rule(result.GetMessage())
	case code == http.StatusConflict:
		return &client.Failure{Class: client.Permanent, Code: client.CodeHeadMoved,
			Message: "The branch is not where it was approved: " + wordsOf(answer)}
	case code == http.StatusMethodNotAllowed && alreadyMerged.MatchString(answer.Message):
		return nil // the caller looks how
	case code == http.StatusMethodNotAllowed:
		return rule(wordsOf(answer))
	case code == http.StatusUnprocessableEntity && notForNow.MatchString(answer.Message):
		return rule(wordsOf(answer))
	}
	return failure(ctx, err)
}

// rule returns the failure of a merge that the host refuses by a rule of its own, or for a moment. Nobody but
// people can tell which, so its words are passed on and the caller tries again later.
func rule(words string) error {
	return &client.Failure{Class: client.Transient, Code: client.CodeHostRule, Message: "The code host does not merge: " + cut(words), RetryAfter: 3}
}

func methodOf(method string) string {
	if method == string(events.MergeSquash) {
		return "squash"
	}
	return "merge"
}

func (g *gitHub) Close(ctx context.Context, number int, branch string) (string, error) {
	if number == 0 {
		return "none", nil
	}
	pr, err := g.get(ctx, number)
	switch {
	case err != nil:
		return "", err
	case pr.GetMerged():
		return "merged", nil
	case pr.GetState() != "open":
		return "closed", nil
	case pr.GetHead().GetRef() != branch || !g.ours(pr):
		return "left", nil
	}
	closed := "closed"
	_, _, err = g.api.PullRequests.Edit(ctx, g.owner, g.name, number, &github.PullRequest{State: &closed})
	return "closed", failure(ctx, err)
}

func (g *gitHub) Mark(ctx context.Context, commit, state, text string) {
	list, _, err := g.api.Repositories.ListStatuses(ctx, g.owner, g.name, commit, &github.ListOptions{PerPage: hostPage})
	if err != nil {
		return
	}
	for _, s := range list { // newest first
		if s.GetContext() == statusContext {
			if s.GetState() == state && s.GetDescription() == text {
				return
			}
			break
		}
	}
	name := statusContext
	_, _, _ = g.api.Repositories.CreateStatus(ctx, g.owner, g.name, commit, &github.RepoStatus{State: &state, Context: &name, Description: &text})
}
