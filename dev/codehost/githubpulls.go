package codehost

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/faults"
	"svc/dev/codehost/record"
)

// pullSummary returns a pull request as lists have it.
func (v *visit) pullSummary(i *record.Issue) object {
	p, in, page := i.Pull, v.in("/pulls/%d", i.Number), v.web("/pull/%d", i.Number)
	about := v.in("/issues/%d", i.Number)
	head := p.Head
	if faults.Stale(v.Context()) && !i.Closed {
		head = p.Before
	}
	owner, _, _ := strings.Cut(v.repo.Name, "/")
	end := func(ref, sha string) object {
		return object{"label": owner + ":" + ref, "ref": ref, "sha": sha, "user": v.user(owner), "repo": v.repository()}
	}
	link := func(to string) object { return object{"href": to} }
	statuses := v.in("/statuses/%s", head)
	return object{
		"id": p.ID, "node_id": api.NodeID("PullRequest", p.ID), "number": i.Number, "title": i.Title, "body": api.TextOrNull(i.Body),
		"state": i.State(), "user": v.user(i.Author), "labels": v.labels(i.Labels), "assignee": nil, "assignees": []object{}, "milestone": nil,
		"requested_reviewers": []object{}, "requested_teams": []object{}, "draft": p.Draft, "locked": false, "active_lock_reason": nil,
		"created_at": api.Stamp(i.CreatedAt), "updated_at": api.Stamp(i.UpdatedAt), "closed_at": api.StampOrNull(i.ClosedAt),
		"merged_at":        api.StampOrNull(p.MergedAt),
		"merge_commit_sha": api.TextOrNull(p.MergeCommit), "head": end(p.Branch, head), "base": end(p.Into, p.Base),
		"author_association": v.association(i.Author), "auto_merge": nil,
		"url": in, "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch", "issue_url": about, "commits_url": in + "/commits",
		"review_comments_url": in + "/comments", "review_comment_url": v.in("/pulls/comments{/number}"), "comments_url": about + "/comments",
		"statuses_url": statuses,
		"_links": object{
			"self": link(in), "html": link(page), "issue": link(about), "comments": link(about + "/comments"), "statuses": link(statuses),
			"review_comments": link(in + "/comments"), "review_comment": link(v.in("/pulls/comments{/number}")), "commits": link(in + "/commits"),
		},
	}
}

// pullRequest returns a pull request with what has to be computed.
func (v *visit) pullRequest(i *record.Issue) (object, error) {
	out, p := v.pullSummary(i), i.Pull
	commits, changes, err := v.work(p)
	if err != nil {
		return nil, err
	}
	mergeable, state := any(nil), "unknown"
	if !i.Closed {
		_, err := v.repo.Bare.Merged(v.Context(), p.Base, p.Head)
		conflict := errors.Is(err, bare.ErrConflict)
		if err != nil && !conflict {
			return nil, err
		}
		mergeable = !conflict
		state = map[bool]string{true: "dirty", false: "clean"}[conflict]
	}
	added, removed := bare.Lines(changes)
	maps.Copy(out, map[string]any{
		"merged": p.MergedAt != nil, "merged_by": v.userOrNull(p.MergedBy), "mergeable": mergeable, "mergeable_state": state, "rebaseable": false,
		"comments": len(i.Comments), "review_comments": 0, "maintainer_can_modify": false, "commits": len(commits),
		"additions": added, "deletions": removed, "changed_files": len(changes),
	})
	return out, nil
}

// work returns the commits and the changes of a pull request, from where it left its base.
func (v *visit) work(p *record.Pull) ([]bare.Commit, []bare.Change, error) {
	return v.h.work(v.Context(), v.repo, p)
}

func listPulls(v *visit) (int, any, error) {
	query := v.URL.Query()
	owner, _, _ := strings.Cut(v.repo.Name, "/")
	var list []*record.Issue
	for _, i := range slices.Backward(v.repo.Issues) {
		if i.Pull != nil && i.OfState(query.Get("state")) &&
			(query.Get("base") == "" || query.Get("base") == i.Pull.Into) &&
			(query.Get("head") == "" || query.Get("head") == owner+":"+i.Pull.Branch) {
			list = append(list, i)
		}
	}
	if query.Get("direction") == "" && query.Get("sort") != "" && query.Get("sort") != "created" {
		query.Set("direction", "asc")
	}
	record.Order(list, query.Get("sort"), query.Get("direction"))
	out := []object{}
	for _, i := range api.Page(v.head, v.Request, list) {
		out = append(out, v.pullSummary(i))
	}
	return http.StatusOK, out, nil
}

func createPull(v *visit) (int, any, error) {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	if err := api.CheckText("PullRequest", in.Title, in.Body); err != nil {
		return 0, nil, err
	}
	i, err := v.h.openPull(v.Context(), v.repo, newPull{
		title: in.Title, body: in.Body, head: in.Head, base: in.Base, draft: in.Draft, author: v.who.login,
	})
	if err != nil {
		return 0, nil, err
	}
	v.head.Set("Location", v.in("/pulls/%d", i.Number))
	out, err := v.pullRequest(i)
	return http.StatusCreated, out, err
}

// findPull returns the pull request in the path.
func (v *visit) findPull() (*record.Issue, error) {
	n, err := v.number()
	if err != nil {
		return nil, err
	}
	if i := v.repo.Pull(n); i != nil {
		return i, nil
	}
	return nil, api.ErrNotFound
}

func getPull(v *visit) (int, any, error) {
	i, err := v.findPull()
	if err != nil {
		return 0, nil, err
	}
	out, err := v.pullRequest(i)
	return http.StatusOK, out, err
}

// mayReopen checks whether a pull request may get a state.
func (v *visit) mayReopen(i *record.Issue, state *string) error {
	if state == nil || *state != "open" || !i.Closed {
		return nil
	}
	_, headErr := v.repo.Bare.Ref(v.Context(), "refs/heads/"+i.Pull.Branch)
	_, baseErr := v.repo.Bare.Ref(v.Context(), "refs/heads/"+i.Pull.Into)
	switch {
	case i.Pull.MergedAt != nil:
		return api.Invalid("PullRequest", "state", "custom", "The pull request cannot be reopened.")
	case headErr != nil:
		return api.Invalid("PullRequest", "state", "custom",
			fmt.Sprintf("state cannot be changed. The %s branch has been deleted.", i.Pull.Branch))
	case baseErr != nil:
		return api.Invalid("PullRequest", "state", "custom", fmt.Sprintf("state cannot be changed. The %s branch has been deleted.", i.Pull.Into))
	case v.h.otherPull(v.repo, i) != nil:
		owner, _, _ := strings.Cut(v.repo.Name, "/")
		return alreadyOpen(owner, i.Pull.Branch)
	}
	return nil
}

func patchPull(v *visit) (int, any, error) {
	i, err := v.findPull()
	if err != nil {
		return 0, nil, err
	}
	var in edit
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	if err := v.mayReopen(i, in.State); err != nil {
		return 0, nil, err
	}
	if in.Base != nil && *in.Base != i.Pull.Into {
		base, err := v.repo.Bare.Ref(v.Context(), "refs/heads/"+*in.Base)
		if err != nil || !bare.IsBranch(*in.Base) {
			return 0, nil, api.Invalid("PullRequest", "base", "invalid", "")
		}
		i.Pull.Into, i.Pull.Base = *in.Base, base
	}
	in.Labels = nil // belong to the issue
	if err := in.apply(v, i); err != nil {
		return 0, nil, err
	}
	if err := v.h.sync(v.Context(), v.repo, v.who.login); err != nil { // of a pull request that is open again
		return 0, nil, err
	}
	out, err := v.pullRequest(i)
	return http.StatusOK, out, err
}

func mergePull(v *visit) (int, any, error) {
	i, err := v.findPull()
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		SHA     string
		Method  string `json:"merge_method"`
		Title   string `json:"commit_title"`
		Message string `json:"commit_message"`
	}
	if v.ContentLength != 0 {
		if err := v.read(&in); err != nil {
			return 0, nil, err
		}
	}
	commit, err := v.h.merge(v.Context(), v.repo, i, merging{
		head: in.SHA, method: cmp.Or(in.Method, "merge"), title: in.Title, message: in.Message, by: v.who.login,
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, object{"sha": commit, "merged": true, "message": "Pull Request successfully merged"}, nil
}
