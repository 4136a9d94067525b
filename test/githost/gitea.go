package githost

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// gitea is a small part of Gitea's interface, with what is peculiar to version 1.26: `mergeable` is worth nothing, the
// list of pull requests knows no branch, unknown labels are ignored, lists are as long as the host wants.
func (f *Forge) gitea() map[string]route {
	return map[string]route{
		"GET ":                           {call: f.giteaRepository},
		"GET /branches/{branch...}":      {call: f.giteaBranch},
		"GET /branch_protections":        {call: f.giteaProtections},
		"GET /issues":                    {call: f.giteaIssues},
		"GET /issues/{n}":                {call: f.giteaIssue},
		"GET /issues/{n}/comments":       {call: f.listComments},
		"GET /issues/{n}/timeline":       {call: f.giteaTimeline},
		"POST /issues/{n}/comments":      {f.addComment, Comments},
		"PATCH /issues/comments/{n}":     {call: f.editComment},
		"GET /pulls":                     {call: f.giteaPulls},
		"POST /pulls":                    {f.giteaOpen, Proposes},
		"GET /pulls/{n}":                 {call: f.giteaPull},
		"PATCH /pulls/{n}":               {call: f.giteaEdit},
		"POST /pulls/{n}/merge":          {f.giteaMerge, Merges},
		"GET /commits/{commit}/statuses": {call: f.giteaStatuses},
		"POST /statuses/{commit}":        {f.setStatus, SetStatus},
	}
}

func (f *Forge) giteaRepository(*http.Request, map[string]any) (int, any) {
	return 200, with(map[string]any{
		"id": f.ID, "full_name": f.repo.Name, "clone_url": f.repo.URL, "html_url": f.host.URL + "/" + f.repo.Name,
		"default_branch": "main", "private": false, "archived": false, "has_issues": true, "has_pull_requests": true,
		"permissions": map[string]any{"push": true}, "allow_merge_commits": true, "allow_squash_merge": true,
	}, f.Settings)
}

func (f *Forge) giteaBranch(r *http.Request, _ map[string]any) (int, any) {
	return 200, with(map[string]any{
		"name": r.PathValue("branch"), "protected": len(f.Branch) > 0, "user_can_push": true, "user_can_merge": true,
		"effective_branch_protection_name": "main",
	}, f.Branch)
}

// giteaProtections refuses whoever does not administer the repository.
func (f *Forge) giteaProtections(*http.Request, map[string]any) (int, any) {
	if f.Protections == nil {
		return 403, "user should be an owner or a collaborator with admin write of a repository"
	}
	return 200, f.Protections
}

func (f *Forge) giteaIssueOf(e *Entry) any {
	out := with(f.issue(e), map[string]any{"pull_request": nil})
	if e.Head != "" {
		out["pull_request"] = map[string]any{"merged": e.Merged}
	}
	return out
}

func (f *Forge) giteaIssues(r *http.Request, _ map[string]any) (int, any) {
	if f.Settings["has_issues"] == false {
		return 404, "The target couldn't be found."
	}
	known := func(label string) bool {
		return slices.ContainsFunc(f.entries, func(e *Entry) bool { return slices.Contains(e.Labels, label) })
	}
	labels := strings.Split(r.URL.Query().Get("labels"), ",")
	labels = slices.DeleteFunc(labels, func(l string) bool { return !known(l) })
	return 200, f.newest(f.giteaIssueOf, func(e *Entry) bool {
		lacks := func(label string) bool { return !slices.Contains(e.Labels, label) }
		return f.open(e) && (e.Head == "" || r.URL.Query().Get("type") != "issues") && !slices.ContainsFunc(labels, lacks)
	})
}

func (f *Forge) giteaIssue(r *http.Request, _ map[string]any) (int, any) {
	if e := f.found(r); e != nil {
		return 200, f.giteaIssueOf(e)
	}
	return 404, "The target couldn't be found."
}

func (f *Forge) giteaTimeline(r *http.Request, _ map[string]any) (int, any) {
	return 200, []any{map[string]any{"type": "close", "user": map[string]any{"login": f.found(r).Who}}}
}

// giteaPullOf has another ref in place of a branch that is gone.
func (f *Forge) giteaPullOf(e *Entry) any {
	ref := e.Head
	if f.repo.Head(f.t, e.Head) == "" {
		ref = "refs/pull/" + strconv.Itoa(e.Number) + "/head"
	}
	out := map[string]any{
		"number": e.Number, "title": e.Title, "body": e.Body, "state": f.state(e), "merged": e.Merged && !f.Unmarked, "mergeable": false,
		"html_url": f.host.URL + "/" + f.repo.Name + "/pulls/" + strconv.Itoa(e.Number), "merged_by": nil, "merge_commit_sha": nil,
		"head": map[string]any{"label": e.Head, "ref": ref, "sha": f.head(e), "repo_id": f.ID, "repo": nil},
		"base": map[string]any{"label": e.Base, "ref": e.Base, "repo_id": f.ID, "repo": nil},
	}
	if e.Merged && !f.Unmarked {
		out["merge_commit_sha"], out["merged_by"] = e.MergeCommit, map[string]any{"login": e.Who}
	}
	return out
}

func (f *Forge) giteaPulls(r *http.Request, _ map[string]any) (int, any) {
	state := r.URL.Query().Get("state")
	return 200, f.newest(f.giteaPullOf, func(e *Entry) bool { return e.Head != "" && (state == "all" || state == f.state(e)) })
}

func (f *Forge) giteaOpen(_ *http.Request, in map[string]any) (int, any) {
	if e := f.openPull(in); e != nil {
		return 201, f.giteaPullOf(e)
	}
	return 409, "pull request already exists for these targets [id: 1]"
}

func (f *Forge) giteaPull(r *http.Request, _ map[string]any) (int, any) {
	if e := f.found(r); e != nil && e.Head != "" {
		return 200, f.giteaPullOf(e)
	}
	return 404, "The target couldn't be found."
}

func (f *Forge) giteaEdit(r *http.Request, in map[string]any) (int, any) {
	e := f.found(r)
	f.closePull(e, in)
	return 201, f.giteaPullOf(e)
}

// giteaMerge says the same of a conflict as of a check that is not done yet.
func (f *Forge) giteaMerge(r *http.Request, in map[string]any) (int, any) {
	e := f.found(r)
	switch {
	case e.Merged:
		return 405, "The PR is already merged"
	case e.Closed:
		return 404, "The target couldn't be found."
	case f.busy(), f.conflicts(e):
		return 405, "Please try again later"
	case in["head_commit_id"] != f.repo.Head(f.t, e.Head):
		return 409, "head out of date"
	}
	title, _ := in["MergeTitleField"].(string)
	message, _ := in["MergeMessageField"].(string)
	f.merge(e, title+"\n\n"+message, "svc")
	return 200, nil
}

// giteaStatuses shows the oldest first, as it may happen within a second.
func (f *Forge) giteaStatuses(*http.Request, map[string]any) (int, any) {
	list := []any{}
	for i, s := range f.statuses {
		list = append(list, map[string]any{"id": i + 1, "status": s.state, "context": s.context, "description": s.text})
	}
	return 200, list
}
