package codehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/counts"
	"svc/dev/codehost/faults"
	"svc/dev/codehost/record"
)

// A newPull is a pull request to open.
type newPull struct {
	title, body, head, base, author string
	draft                           bool
}

// openPull opens a pull request from a branch of the repository. The head may have the owner before it.
func (h *host) openPull(ctx context.Context, r *record.Repository, in newPull) (*record.Issue, error) {
	owner, _, _ := strings.Cut(r.Name, "/")
	branch, _ := strings.CutPrefix(in.head, owner+":")
	head, err := h.branchFor(ctx, r, "head", branch)
	if err != nil {
		return nil, err
	}
	base, err := h.branchFor(ctx, r, "base", in.base)
	if err != nil {
		return nil, err
	}
	made := &record.Issue{Pull: &record.Pull{Branch: branch, Into: in.base}}
	contained, err := r.Bare.Contains(ctx, base, head)
	switch {
	case err != nil:
		return nil, err
	case h.otherPull(r, made) != nil:
		return nil, alreadyOpen(owner, branch)
	case contained:
		return nil, api.InvalidWith(object{"resource": "PullRequest", "code": "custom"},
			fmt.Sprintf("No commits between %s and %s", in.base, branch))
	}
	i := r.AddIssue(in.author, in.title, in.body, nil, h.now())
	i.Pull = &record.Pull{ID: r.NextID(), Branch: branch, Into: in.base, Head: head, Before: head, Base: base, Draft: in.draft}
	if err := r.Bare.Point(ctx, pullRef(i.Number), head); err != nil {
		return nil, err
	}
	h.counts.Add(r.Name, func(c *counts.Effects) { c.Pulls++ })
	h.tell(r, i, "opened", in.author)
	return i, r.Save()
}

// branchFor returns the head of a branch that a field names.
func (h *host) branchFor(ctx context.Context, r *record.Repository, field, name string) (string, error) {
	if name == "" {
		return "", api.Invalid("PullRequest", field, "missing_field", "")
	}
	if !bare.IsBranch(name) {
		return "", api.Invalid("PullRequest", field, "invalid", "")
	}
	id, err := r.Bare.Ref(ctx, "refs/heads/"+name)
	return id, missing(err, api.Invalid("PullRequest", field, "invalid", ""))
}

// otherPull returns an open pull request with the branches of i, or nil.
func (h *host) otherPull(r *record.Repository, i *record.Issue) *record.Issue {
	for _, other := range r.Issues {
		if other != i && other.Pull != nil && !other.Closed && other.Pull.Branch == i.Pull.Branch && other.Pull.Into == i.Pull.Into {
			return other
		}
	}
	return nil
}

func alreadyOpen(owner, branch string) error {
	return api.InvalidWith(object{"resource": "PullRequest", "code": "custom"},
		fmt.Sprintf("A pull request already exists for %s:%s.", owner, branch))
}

// maxCommits bounds the list of commits.
const maxCommits = 1000

// work returns the commits of a pull request, the newest first, and its changes from where it left its base.
func (h *host) work(ctx context.Context, r *record.Repository, p *record.Pull) ([]bare.Commit, []bare.Change, error) {
	from, err := r.Bare.MergeBase(ctx, p.Base, p.Head)
	if err != nil && !errors.Is(err, bare.ErrNotFound) {
		return nil, nil, err
	}
	commits, err := r.Bare.Log(ctx, maxCommits, p.Head, "^"+p.Base)
	if err != nil {
		return nil, nil, err
	}
	changes, err := r.Bare.Diff(ctx, from, p.Head)
	return commits, changes, err
}

// A merging is what somebody asks for. head is the expected head, if it is not empty.
type merging struct {
	head, method, title, message, by string
}

// Refusals to merge.
var (
	errHeadMoved    = &api.Error{Status: http.StatusConflict, Message: "Head branch was modified. Review and try the merge again."}
	errBaseMoved    = notMergeable("Base branch was modified. Review and try the merge again.")
	errNotMergeable = notMergeable("Pull Request is not mergeable")
	errDraft        = notMergeable("Pull Request is still a draft")
)

func notMergeable(text string) *api.Error {
	return &api.Error{Status: http.StatusMethodNotAllowed, Message: text}
}

// merge merges a pull request and returns the merge commit.
func (h *host) merge(ctx context.Context, r *record.Repository, i *record.Issue, m merging) (string, error) {
	p, ref := i.Pull, "refs/heads/"+i.Pull.Into
	base, err := r.Bare.Ref(ctx, ref)
	switch {
	case err != nil:
		return "", missing(err, errNotMergeable)
	case i.Closed:
		return "", errNotMergeable
	case p.Draft:
		return "", errDraft
	case m.head != "" && m.head != p.Head:
		return "", errHeadMoved
	case !slices.Contains([]string{"merge", "squash", "rebase"}, m.method):
		return "", api.Invalid("PullRequest", "merge_method", "invalid", "")
	case !slices.Contains(r.Methods, m.method):
		return "", notMergeable(map[string]string{"merge": "Merge commits", "squash": "Squash merges", "rebase": "Rebase merges"}[m.method] +
			" are not allowed on this repository.")
	}
	commit, err := h.mergeCommit(ctx, r, i, base, m)
	if err != nil {
		return "", err
	}
	err = r.Bare.Update(ctx, ref, base, commit)
	if errors.Is(err, bare.ErrMoved) {
		return "", errBaseMoved
	}
	if err != nil {
		return "", err
	}
	i.Close(m.by, "", h.now())
	p.MergedAt, p.MergedBy, p.MergeCommit, p.Base = i.ClosedAt, m.by, commit, base
	h.merged(r, i)
	return commit, h.changed(ctx, r, map[string]string{ref: base}, map[string]string{ref: commit}, m.by)
}

// closing finds what GitHub closes with a merge.
var closing = regexp.MustCompile(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? #([0-9]{1,9})\b`)

// merged counts a merge, and closes the issues that it names, if it is into the default branch.
func (h *host) merged(r *record.Repository, i *record.Issue) {
	h.counts.Add(r.Name, func(c *counts.Effects) { c.Merges++ })
	h.tell(r, i, "closed", i.Pull.MergedBy)
	if i.Pull.Into != r.DefaultBranch {
		return
	}
	for _, found := range closing.FindAllStringSubmatch(i.Body, -1) {
		n, _ := strconv.Atoi(found[1]) // has few digits
		if named := r.Issue(n); named != nil && named.Pull == nil && !named.Closed {
			named.Close(i.Pull.MergedBy, "completed", *i.Pull.MergedAt)
		}
	}
}

// mergeCommit writes the commit that merges a pull request into base.
func (h *host) mergeCommit(ctx context.Context, r *record.Repository, i *record.Issue, base string, m merging) (string, error) {
	tree, err := r.Bare.Merged(ctx, base, i.Pull.Head)
	if errors.Is(err, bare.ErrConflict) {
		return "", errNotMergeable
	}
	if err != nil {
		return "", err
	}
	if faults.Lying(ctx) {
		if tree, err = r.Bare.Ref(ctx, base+"^{tree}"); err != nil {
			return "", err
		}
	}
	by := h.signature(m.by)
	c := bare.Commit{Tree: tree, Author: by, Committer: bare.Signature{Name: "GitHub", Email: "noreply@github.com", At: by.At}}
	owner, _, _ := strings.Cut(r.Name, "/")
	title, message := fmt.Sprintf("Merge pull request #%d from %s/%s", i.Number, owner, i.Pull.Branch), i.Title
	if c.Parents = []string{base, i.Pull.Head}; m.method == "squash" {
		c.Parents = []string{base}
		if title, message, err = h.squashed(ctx, r, i); err != nil {
			return "", err
		}
	}
	c.Message = cmp.Or(m.title, title)
	if text := cmp.Or(m.message, message); text != "" {
		c.Message += "\n\n" + text
	}
	c.Message += "\n"
	return r.Bare.Write(ctx, c)
}

// squashed returns the message of a squash merge: that of a single commit, or a list.
func (h *host) squashed(ctx context.Context, r *record.Repository, i *record.Issue) (title, message string, err error) {
	commits, _, err := h.work(ctx, r, i.Pull)
	if err != nil {
		return "", "", err
	}
	if len(commits) == 1 {
		_, body, _ := strings.Cut(commits[0].Message, "\n")
		return fmt.Sprintf("%s (#%d)", commits[0].Title(), i.Number), strings.TrimSpace(body), nil
	}
	var list []string
	for _, c := range slices.Backward(commits) {
		list = append(list, "* "+c.Message)
	}
	return fmt.Sprintf("%s (#%d)", i.Title, i.Number), strings.Join(list, "\n\n"), nil
}

// signature is that of an account, now.
func (h *host) signature(login string) bare.Signature {
	p := h.account(login)
	return bare.Signature{
		Name: cmp.Or(p.Name, p.Login), Email: cmp.Or(p.Primary().Address, login+"@users.noreply.codehost.localhost"), At: h.now(),
	}
}
