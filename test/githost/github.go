package githost

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// gitHub is a small part of GitHub's interface.
func (f *Forge) gitHub() map[string]route {
	return map[string]route{
		"GET ":                           {call: f.gitHubRepository},
		"GET /rules/branches/{branch}":   {call: f.gitHubRules},
		"GET /issues":                    {call: f.gitHubIssues},
		"GET /issues/{n}":                {call: f.gitHubIssue},
		"GET /issues/{n}/comments":       {call: f.listComments},
		"POST /issues/{n}/comments":      {f.addComment, Comments},
		"PATCH /issues/comments/{n}":     {call: f.editComment},
		"GET /pulls":                     {call: f.gitHubPulls},
		"POST /pulls":                    {f.gitHubOpen, Proposes},
		"GET /pulls/{n}":                 {call: f.gitHubPull},
		"PATCH /pulls/{n}":               {call: f.gitHubEdit},
		"PUT /pulls/{n}/merge":           {f.gitHubMerge, Merges},
		"GET /commits/{commit}/statuses": {call: f.gitHubStatuses},
		"POST /statuses/{commit}":        {f.setStatus, SetStatus},
	}
}

func (f *Forge) gitHubRepository(*http.Request, map[string]any) (int, any) {
	return 200, with(map[string]any{
		"id": f.ID, "full_name": f.repo.Name, "clone_url": f.repo.URL, "html_url": f.host.URL + "/" + f.repo.Name,
		"default_branch": "main", "private": false, "archived": false, "has_issues": true,
		"permissions": map[string]any{"push": true}, "allow_merge_commit": true, "allow_squash_merge": true,
	}, f.Settings)
}

func (f *Forge) gitHubRules(*http.Request, map[string]any) (int, any) {
	return 200, append([]map[string]any{}, f.Rules...)
}

func (f *Forge) gitHubIssueOf(e *Entry) any {
	out := with(f.issue(e), map[string]any{"closed_by": map[string]any{"login": e.Who}})
	if e.Head != "" {
		out["pull_request"] = map[string]any{"url": "x"}
	}
	return out
}

func (f *Forge) gitHubIssues(r *http.Request, _ map[string]any) (int, any) {
	if f.Settings["has_issues"] == false {
		return 410, "Issues has been disabled in this repository."
	}
	label := r.URL.Query().Get("labels")
	return 200, f.newest(f.gitHubIssueOf, func(e *Entry) bool { return f.open(e) && (label == "" || slices.Contains(e.Labels, label)) })
}

func (f *Forge) gitHubIssue(r *http.Request, _ map[string]any) (int, any) {
	if e := f.found(r); e != nil {
		return 200, f.gitHubIssueOf(e)
	}
	return 404, "Not Found"
}

func (f *Forge) gitHubPullOf(e *Entry) any {
	repo := map[string]any{"id": f.ID}
	return map[string]any{
		"number": e.Number, "title": e.Title, "body": e.Body, "state": f.state(e), "merged": e.Merged && !f.Unmarked,
		"merge_commit_sha": e.MergeCommit, "html_url": f.host.URL + "/" + f.repo.Name + "/pull/" + strconv.Itoa(e.Number),
		"merged_by": map[string]any{"login": e.Who},
		"head":      map[string]any{"ref": e.Head, "sha": f.head(e), "repo": repo}, "base": map[string]any{"ref": e.Base, "repo": repo},
	}
}

func (f *Forge) gitHubPulls(r *http.Request, _ map[string]any) (int, any) {
	_, branch, _ := strings.Cut(r.URL.Query().Get("head"), ":")
	state := r.URL.Query().Get("state")
	return 200, f.newest(f.gitHubPullOf, func(e *Entry) bool {
		return e.Head != "" && (branch == "" || e.Head == branch) && (state == "all" || state == f.state(e))
	})
}

func (f *Forge) gitHubOpen(_ *http.Request, in map[string]any) (int, any) {
	if e := f.openPull(in); e != nil {
		return 201, f.gitHubPullOf(e)
	}
	return 422, map[string]any{"message": "Validation Failed", "errors": []any{
		map[string]any{"message": "A pull request already exists for acme:branch."}}}
}

func (f *Forge) gitHubPull(r *http.Request, _ map[string]any) (int, any) {
	if e := f.found(r); e != nil && e.Head != "" {
		return 200, f.gitHubPullOf(e)
	}
	return 404, "Not Found"
}

func (f *Forge) gitHubEdit(r *http.Request, in map[string]any) (int, any) {
	e := f.found(r)
	f.closePull(e, in)
	return 200, f.gitHubPullOf(e)
}

func (f *Forge) gitHubMerge(r *http.Request, in map[string]any) (int, any) {
	e := f.found(r)
	switch {
	case e.Closed || e.Merged:
		return 405, "Pull Request is not mergeable"
	case f.conflicts(e):
		return 405, "Pull Request has merge conflicts"
	case f.busy():
		return 405, "Base branch was modified. Review and try the merge again."
	case in["sha"] != f.repo.Head(f.t, e.Head):
		return 409, "Head branch was modified. Review and try the merge again."
	}
	title, _ := in["commit_title"].(string)
	message, _ := in["commit_message"].(string)
	f.merge(e, title+"\n\n"+message, "svc")
	return 200, map[string]any{"merged": true, "sha": e.MergeCommit}
}

func (f *Forge) gitHubStatuses(*http.Request, map[string]any) (int, any) {
	list := []any{}
	for _, s := range slices.Backward(f.statuses) {
		list = append(list, map[string]any{"state": s.state, "context": s.context, "description": s.text})
	}
	return 200, list
}
