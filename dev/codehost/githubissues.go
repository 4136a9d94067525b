package codehost

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/counts"
	"svc/dev/codehost/people"
	"svc/dev/codehost/record"
)

// association says what somebody is to a repository.
func (v *visit) association(login string) string {
	owner, _, _ := strings.Cut(v.repo.Name, "/")
	switch {
	case login == owner:
		return "OWNER"
	case v.h.permission(v.repo, login) == "write":
		return "COLLABORATOR"
	}
	return "NONE"
}

// issue returns an issue or a pull request as the list of issues has it.
func (v *visit) issue(i *record.Issue) object {
	in, page := v.in("/issues/%d", i.Number), v.web("/issues/%d", i.Number)
	if i.Pull != nil {
		page = v.web("/pull/%d", i.Number)
	}
	reactions := object{"url": in + "/reactions", "total_count": 0}
	for _, name := range []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"} {
		reactions[name] = 0
	}
	out := object{
		"id": i.ID, "node_id": api.NodeID("Issue", i.ID), "number": i.Number, "title": i.Title, "body": api.TextOrNull(i.Body),
		"state": i.State(), "state_reason": api.TextOrNull(i.Reason), "user": v.user(i.Author), "labels": v.labels(i.Labels),
		"assignee": nil, "assignees": []object{}, "milestone": nil, "locked": false, "active_lock_reason": nil, "comments": len(i.Comments),
		"created_at": api.Stamp(i.CreatedAt), "updated_at": api.Stamp(i.UpdatedAt), "closed_at": api.StampOrNull(i.ClosedAt),
		"closed_by":          v.userOrNull(i.ClosedBy),
		"author_association": v.association(i.Author), "reactions": reactions, "performed_via_github_app": nil,
		"url": in, "repository_url": v.in(""), "labels_url": in + "/labels{/name}", "comments_url": in + "/comments",
		"events_url":   in + "/events",
		"timeline_url": in + "/timeline", "html_url": page,
	}
	if i.Pull != nil {
		out["draft"] = i.Pull.Draft
		out["pull_request"] = object{
			"url": v.in("/pulls/%d", i.Number), "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch",
			"merged_at": api.StampOrNull(i.Pull.MergedAt),
		}
	}
	return out
}

func (v *visit) labels(names []string) []object {
	list := []object{}
	for _, name := range names {
		id := people.IDFor(v.repo.Name + " " + name)
		list = append(list, object{
			"id": id, "node_id": api.NodeID("Label", id), "url": v.in("/labels/%s", api.Escaped(name)), "name": name, "color": "ededed",
			"default": false, "description": nil,
		})
	}
	return list
}

// listIssues lists issues and pull requests, the newest first.
func listIssues(v *visit) (int, any, error) {
	query := v.URL.Query()
	since, err := v.since()
	if err != nil {
		return 0, nil, err
	}
	var list []*record.Issue
	for _, i := range slices.Backward(v.repo.Issues) {
		if i.OfState(query.Get("state")) && i.HasLabels(query.Get("labels")) && !i.UpdatedAt.Before(since) &&
			(query.Get("creator") == "" || query.Get("creator") == i.Author) {
			list = append(list, i)
		}
	}
	record.Order(list, query.Get("sort"), query.Get("direction"))
	out := []object{}
	for _, i := range api.Page(v.head, v.Request, list) {
		out = append(out, v.issue(i))
	}
	return http.StatusOK, out, nil
}

func createIssue(v *visit) (int, any, error) {
	var in struct {
		Title, Body string
		Labels      []any
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	if err := api.CheckText("Issue", in.Title, in.Body); err != nil {
		return 0, nil, err
	}
	i := v.repo.AddIssue(v.who.login, in.Title, in.Body, api.LabelNames(in.Labels), v.h.now())
	v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.Issues++ })
	v.h.tell(v.repo, i, "opened", v.who.login)
	v.head.Set("Location", v.in("/issues/%d", i.Number))
	return http.StatusCreated, v.issue(i), v.repo.Save()
}

// findIssue returns the issue in the path.
func (v *visit) findIssue() (*record.Issue, error) {
	n, err := v.number()
	if err != nil {
		return nil, err
	}
	if i := v.repo.Issue(n); i != nil {
		return i, nil
	}
	return nil, api.ErrNotFound
}

func getIssue(v *visit) (int, any, error) {
	i, err := v.findIssue()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, v.issue(i), nil
}

// An edit is a change of an issue or a pull request.
type edit struct {
	Title, Body, State, Base *string
	StateReason              *string `json:"state_reason"`
	Labels                   *[]any
}

// apply changes i. What belongs to pull requests alone has been done.
func (e edit) apply(v *visit, i *record.Issue) error {
	title, body, now := i.Title, i.Body, v.h.now()
	if e.Title != nil {
		title = *e.Title
	}
	if e.Body != nil {
		body = *e.Body
	}
	if err := api.CheckText("Issue", title, body); err != nil {
		return err
	}
	if e.State != nil && *e.State != "open" && *e.State != "closed" {
		return api.Invalid("Issue", "state", "invalid", "")
	}
	i.Title, i.Body, i.UpdatedAt = title, body, now
	action := "edited"
	if e.Labels != nil {
		v.repo.Label(i, v.who.login, api.LabelNames(*e.Labels), now)
		action = "labeled"
	}
	switch {
	case e.State == nil || *e.State == i.State():
	case *e.State == "open":
		i.Reopen(now)
	case i.Pull != nil:
		i.Close(v.who.login, "", now)
		v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.PullsClosed++ })
	default:
		reason := "completed"
		if e.StateReason != nil && *e.StateReason == "not_planned" {
			reason = *e.StateReason
		}
		i.Close(v.who.login, reason, now)
	}
	v.h.tell(v.repo, i, action, v.who.login)
	return v.repo.Save()
}

// tell tells hooks that an issue or a pull request has changed.
func (h *host) tell(r *record.Repository, i *record.Issue, action, by string) {
	event := "issues"
	if i.Pull != nil {
		event = "pull_request"
	}
	h.hooks.Tell(r.Record, event, by, object{"action": action, "number": i.Number})
}

func patchIssue(v *visit) (int, any, error) {
	i, err := v.findIssue()
	if err != nil {
		return 0, nil, err
	}
	var in edit
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	if i.Pull != nil {
		if err := v.mayReopen(i, in.State); err != nil {
			return 0, nil, err
		}
	}
	if err := in.apply(v, i); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, v.issue(i), nil
}

func (v *visit) comment(i *record.Issue, c *record.Comment) object {
	in, page := v.in("/issues/comments/%d", c.ID), v.web("/issues/%d#issuecomment-%d", i.Number, c.ID)
	if i.Pull != nil {
		page = v.web("/pull/%d#issuecomment-%d", i.Number, c.ID)
	}
	return object{
		"id": c.ID, "node_id": api.NodeID("IssueComment", c.ID), "url": in, "html_url": page, "issue_url": v.in("/issues/%d", i.Number),
		"body": c.Body, "user": v.user(c.Author), "created_at": api.Stamp(c.CreatedAt), "updated_at": api.Stamp(c.UpdatedAt),
		"author_association": v.association(c.Author), "performed_via_github_app": nil,
	}
}

// getComments answers /issues/7/comments, /issues/comments/7 and /issues/7/events.
func getComments(v *visit) (int, any, error) {
	switch {
	case v.PathValue("number") == "comments":
		return getComment(v)
	case v.PathValue("comment") == "comments":
		return listComments(v)
	case v.PathValue("comment") == "events":
		return listEvents(v)
	}
	return 0, nil, api.ErrNotFound
}

// listEvents lists when the issue got labels, the oldest first.
func listEvents(v *visit) (int, any, error) {
	i, err := v.findIssue()
	if err != nil {
		return 0, nil, err
	}
	out := []object{}
	for _, l := range api.Page(v.head, v.Request, i.Labelled) {
		out = append(out, object{
			"id": l.ID, "node_id": api.NodeID("LabeledEvent", l.ID), "url": v.in("/issues/events/%d", l.ID), "actor": v.user(l.By),
			"event": "labeled", "commit_id": nil, "commit_url": nil, "created_at": api.Stamp(l.At),
			"label": object{"name": l.Label, "color": "ededed"}, "performed_via_github_app": nil,
		})
	}
	return http.StatusOK, out, nil
}

func listComments(v *visit) (int, any, error) {
	i, err := v.findIssue()
	if err != nil {
		return 0, nil, err
	}
	since, err := v.since()
	if err != nil {
		return 0, nil, err
	}
	list := slices.DeleteFunc(slices.Clone(i.Comments), func(c *record.Comment) bool { return c.UpdatedAt.Before(since) })
	out := []object{}
	for _, c := range api.Page(v.head, v.Request, list) {
		out = append(out, v.comment(i, c))
	}
	return http.StatusOK, out, nil
}

// readComment reads the body of a comment.
func (v *visit) readComment() (string, error) {
	var in struct{ Body string }
	if err := v.read(&in); err != nil {
		return "", err
	}
	switch {
	case strings.TrimSpace(in.Body) == "":
		return "", api.Invalid("IssueComment", "body", "missing_field", "")
	case len([]rune(in.Body)) > api.MaxText:
		return "", api.Invalid("IssueComment", "body", "custom", "body is too long (maximum is 65536 characters)")
	}
	return in.Body, nil
}

func createComment(v *visit) (int, any, error) {
	i, err := v.findIssue()
	if err != nil {
		return 0, nil, err
	}
	text, err := v.readComment()
	if err != nil {
		return 0, nil, err
	}
	c := v.repo.AddComment(i, v.who.login, text, v.h.now())
	v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.Comments++ })
	v.head.Set("Location", v.in("/issues/comments/%d", c.ID))
	return http.StatusCreated, v.comment(i, c), v.repo.Save()
}

// findComment returns the comment in the path with its issue.
func (v *visit) findComment() (*record.Issue, *record.Comment, error) {
	id, err := strconv.ParseInt(v.PathValue("comment"), 10, 64)
	if err != nil {
		return nil, nil, api.ErrNotFound
	}
	if i, c := v.repo.Comment(id); c != nil {
		return i, c, nil
	}
	return nil, nil, api.ErrNotFound
}

func getComment(v *visit) (int, any, error) {
	i, c, err := v.findComment()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, v.comment(i, c), nil
}

// patchComment edits a comment: one's own, or with the right to push any.
func patchComment(v *visit) (int, any, error) {
	i, c, err := v.findComment()
	if err != nil {
		return 0, nil, err
	}
	if c.Author != v.who.login && !v.who.mayPush(v.repo) {
		return 0, nil, api.ErrForbidden
	}
	text, err := v.readComment()
	if err != nil {
		return 0, nil, err
	}
	c.Body, c.UpdatedAt, i.UpdatedAt = text, v.h.now(), v.h.now()
	v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.CommentsEdited++ })
	return http.StatusOK, v.comment(i, c), v.repo.Save()
}
