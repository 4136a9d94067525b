package codehost

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"svc/engine/client"
	"svc/events"
)

// A pull is a pull request.
type pull struct {
	number       int
	url, body    string
	open, merged bool
	mergeCommit  string
	mergedBy     string
	branch, head string // branch and commit that it proposes
	base         string // branch
	ours         bool   // the branch is in the repository itself
	repository   string // id of the repository, "" if the host does not say
}

// statusContext names the run's status among those of a commit.
const statusContext = "svc/run"

// The states of a commit's status.
const (
	MarkPending = "pending"
	MarkSuccess = "success"
	MarkFailure = "failure"
)

func (h hosted) Propose(ctx context.Context, in client.ProposeInput) (client.ProposeResult, error) {
	found, err := h.find(ctx, in)
	if err != nil || found.number != 0 {
		return found.proposed(), err
	}
	made, err := h.openPull(ctx, in, marked(in.Body, in.Marker))
	if code := statusOf(err); code == http.StatusUnprocessableEntity || code == http.StatusConflict { // there may be one by now
		if found, again := h.find(ctx, in); again != nil || found.number != 0 {
			return found.proposed(), again
		}
	}
	return made.proposed(), failure(ctx, err)
}

func (p pull) proposed() client.ProposeResult {
	return client.ProposeResult{Number: p.number, URL: p.url}
}

// find returns the pull request of a run: the one with its marker in whatever state it is, or else an open one that
// somebody made of the same branch for the same target. A host opens a second one once the first is closed.
func (h hosted) find(ctx context.Context, in client.ProposeInput) (open pull, err error) {
	for page := 1; page != 0 && page <= maxPages; {
		list, next, err := h.pulls(ctx, in.Branch, page)
		if err != nil {
			return pull{}, failure(ctx, err)
		}
		for _, p := range list {
			if p.branch != in.Branch || !p.ours {
				continue
			}
			if strings.Contains(p.body, mark(in.Marker)) {
				return p, nil
			}
			if p.open && p.base == in.Base {
				open = p
			}
		}
		page = next
	}
	return open, nil
}

func (h hosted) get(ctx context.Context, number int) (pull, error) {
	p, err := h.pull(ctx, number)
	if err != nil {
		return pull{}, failure(ctx, err)
	}
	if h.r.HostID != "" && p.repository != "" && h.r.HostID != p.repository {
		return pull{}, h.another()
	}
	return p, nil
}

func (h hosted) PullRequest(ctx context.Context, number int) (*client.PullRequest, error) {
	if number == 0 {
		return nil, nil
	}
	p, err := h.get(ctx, number)
	if err != nil {
		return nil, err
	}
	switch {
	case p.merged:
		return &client.PullRequest{State: "merged", Head: p.head, MergeCommit: p.mergeCommit, By: p.mergedBy}, nil
	case p.open:
		return &client.PullRequest{State: "open", Head: p.head}, nil
	}
	return &client.PullRequest{State: "closed", Head: p.head, By: h.closedBy(ctx, number)}, nil
}

func (h hosted) Closed(ctx context.Context, folder string) ([]int, error) {
	list, err := h.closedPulls(ctx)
	if err != nil {
		return nil, failure(ctx, err)
	}
	closed := []int{}
	for _, p := range list {
		if strings.HasPrefix(p.branch, folder+"/") && p.ours {
			closed = append(closed, p.number)
		}
	}
	return closed, nil
}

func (hosted) Merges() bool { return true }

var (
	alreadyMerged = regexp.MustCompile(`(?i)already merged`)
	headMoved     = regexp.MustCompile(`(?i)^head (branch was modified|out of date)`) // as GitHub and Gitea say it
	notForNow     = regexp.MustCompile(`(?i)base branch was modified|try again|in progress|is expected|pending|being checked|not mergeable`)
)

// Merge believes a host in nothing but that it refuses: the caller looks at what became of the target branch.
func (h hosted) Merge(ctx context.Context, in client.MergeInput) error {
	if in.Head == "" {
		return &client.Failure{Class: client.Permanent, Code: client.CodeHeadMoved, Message: "A merge needs the head that was approved."}
	}
	err := h.merge(ctx, in, methodOf(in.Method))
	r, refused := errors.AsType[*refusal](err)
	if !refused {
		return failure(ctx, err)
	}
	switch {
	case r.status == http.StatusConflict && headMoved.MatchString(r.words):
		return &client.Failure{Class: client.Permanent, Code: client.CodeHeadMoved,
			Message: "The branch is not where it was approved: " + r.words}
	case r.status == http.StatusMethodNotAllowed && alreadyMerged.MatchString(r.words):
		return nil
	case r.status == http.StatusMethodNotAllowed, r.status == http.StatusConflict,
		r.status == http.StatusUnprocessableEntity && notForNow.MatchString(r.words):
		return rule(r.words)
	case r.status == http.StatusNotFound: // Gitea says so of a pull request that somebody has closed
		if p, err := h.get(ctx, in.PullRequest); err == nil && !p.open {
			return nil
		}
	}
	return failure(ctx, err)
}

// rule returns the failure of a merge that the host refuses by a rule of its own, or for a moment. Nobody but
// people can tell which, so its words are passed on and the caller tries again later. Each try makes Gitea check
// the pull request again, for two seconds or three, and refuse meanwhile: the wait is longer.
func rule(words string) error {
	return &client.Failure{Class: client.Transient, Code: client.CodeHostRule,
		Message: "The code host does not merge: " + cut(words), RetryAfter: 5}
}

func methodOf(method string) string {
	if method == string(events.MergeSquash) {
		return "squash"
	}
	return "merge"
}

func (h hosted) Close(ctx context.Context, number int, branch string) (string, error) {
	if number == 0 {
		return "none", nil
	}
	p, err := h.get(ctx, number)
	switch {
	case err != nil:
		return "", err
	case p.merged:
		return "merged", nil
	case !p.open:
		return "closed", nil
	case p.branch != branch || !p.ours:
		return "left", nil
	}
	return "closed", failure(ctx, h.closePull(ctx, number))
}

func (h hosted) Mark(ctx context.Context, commit, state, text string) {
	is, said, err := h.status(ctx, commit)
	if err == nil && (is != state || said != text) {
		_ = h.setStatus(ctx, commit, state, text) // a courtesy
	}
}
