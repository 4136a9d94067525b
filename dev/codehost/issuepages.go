package codehost

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/counts"
	"svc/dev/codehost/record"
)

// placeholder shows a page for issues and pull requests that the host does not have. The runs of the
// demonstration link to some that are older than the host.
func placeholder(w http.ResponseWriter, r *http.Request, what string) {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 1 || what == "" {
		api.Refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	title := r.PathValue("owner") + "/" + r.PathValue("name") + " #" + strconv.Itoa(n)
	show(w, http.StatusOK, message{title, "This code host for development has no such " + what + ". A real one shows it here."})
}

// issuesPage lists the issues of a state, and has a form for a new one.
func issuesPage(v *view) error { return v.list("issues", false) }

// pullsPage lists the pull requests of a state.
func pullsPage(v *view) error { return v.list("pulls", true) }

func (v *view) list(tab string, pulls bool) error {
	state := v.URL.Query().Get("state")
	if state != "closed" {
		state = "open"
	}
	var list []*record.Issue
	for _, i := range slices.Backward(v.repo.Issues) {
		if (i.Pull != nil) == pulls && i.State() == state {
			list = append(list, i)
		}
	}
	title := map[bool]string{true: "Pull requests", false: "Issues"}[pulls]
	return v.show("list", struct {
		layout
		State string
		List  []*record.Issue
	}{v.layout(title, tab), state, list})
}

// An issueView is the page of an issue, or of a pull request if Pull is set.
type issueView struct {
	layout
	Issue *record.Issue
	State string

	Pull      *record.Pull
	Commits   []bare.Commit
	Files     []changedFile
	Statuses  []*record.Status
	Combined  string
	Conflict  bool
	MergeWith []string
}

func issuePage(v *view) error {
	i := v.issue()
	switch {
	case i == nil:
		return api.ErrNotFound
	case i.Pull != nil:
		return v.seeOther("/pull/" + strconv.Itoa(i.Number))
	}
	return v.show("issue", issueView{layout: v.layout("#"+strconv.Itoa(i.Number)+" "+i.Title, "issues"), Issue: i, State: i.State()})
}

// issue returns the issue or pull request in the path, or nil.
func (v *view) issue() *record.Issue {
	n, err := strconv.Atoi(v.PathValue("number"))
	if err != nil {
		return nil
	}
	return v.repo.Issue(n)
}

func pullPage(v *view) error {
	i := v.issue()
	if i == nil || i.Pull == nil {
		return api.ErrNotFound
	}
	page := issueView{
		layout: v.layout("#"+strconv.Itoa(i.Number)+" "+i.Title, "pulls"), Issue: i, State: i.State(), Pull: i.Pull,
		Statuses: v.repo.StatusesOf(i.Pull.Head), MergeWith: v.repo.Methods,
	}
	page.Combined = record.Combined(page.Statuses)
	if i.Pull.MergedAt != nil {
		page.State = "merged"
	}
	commits, changes, err := v.h.work(v.Context(), v.repo, i.Pull)
	if err != nil {
		return err
	}
	page.Commits, page.Files = commits, newChangedFiles(changes)
	if !i.Closed {
		_, err := v.repo.Bare.Merged(v.Context(), i.Pull.Base, i.Pull.Head)
		if page.Conflict = errors.Is(err, bare.ErrConflict); err != nil && !page.Conflict {
			return err
		}
	}
	return v.show("issue", page)
}

// visitor returns the person whom a form names.
func (v *view) visitor() (string, error) {
	if err := v.ParseForm(); err != nil {
		return "", &api.Error{Status: http.StatusBadRequest, Message: "That could not be read."}
	}
	p, ok := v.h.people.ByLogin(v.PostForm.Get("as"))
	if !ok {
		return "", &api.Error{Status: http.StatusUnprocessableEntity, Message: "This person is not here any more."}
	}
	return p.Login, nil
}

// newIssue adds an issue.
func newIssue(v *view) error {
	by, err := v.visitor()
	if err != nil {
		return err
	}
	title, body := strings.TrimSpace(v.PostForm.Get("title")), lineFeeds(v.PostForm.Get("body"))
	if err := api.CheckText("Issue", title, body); err != nil {
		return err
	}
	i := v.repo.AddIssue(by, title, body, nil, v.h.now())
	v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.Issues++ })
	v.h.tell(v.repo, i, "opened", by)
	if err := v.repo.Save(); err != nil {
		return err
	}
	return v.seeOther("/issues/" + strconv.Itoa(i.Number))
}

// lineFeeds turns the line ends of forms into those of other texts.
func lineFeeds(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// act does what a form of an issue or a pull request asks for.
func act(v *view) error {
	by, err := v.visitor()
	if err != nil {
		return err
	}
	i := v.issue()
	if i == nil {
		return api.ErrNotFound
	}
	if text := lineFeeds(v.PostForm.Get("body")); strings.TrimSpace(text) != "" {
		if len([]rune(text)) > api.MaxText {
			return api.Invalid("IssueComment", "body", "custom", "The comment is too long.")
		}
		v.repo.AddComment(i, by, text, v.h.now())
		v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.Comments++ })
	}
	if err := v.change(i, by, v.PostForm.Get("action")); err != nil {
		return err
	}
	if err := v.repo.Save(); err != nil {
		return err
	}
	page := "/issues/"
	if i.Pull != nil {
		page = "/pull/"
	}
	return v.seeOther(page + strconv.Itoa(i.Number))
}

// change merges, closes or reopens i.
func (v *view) change(i *record.Issue, by, action string) error {
	request := &visit{Request: v.Request, h: v.h, who: access{login: by, known: true}, repo: v.repo}
	set := func(state string) error {
		if i.Pull != nil {
			if err := request.mayReopen(i, &state); err != nil {
				return err
			}
		}
		if err := (edit{State: &state}).apply(request, i); err != nil {
			return err
		}
		return v.h.sync(v.Context(), v.repo, by)
	}
	switch action {
	case "label":
		labels := []any{strings.TrimSpace(v.PostForm.Get("label"))}
		for _, label := range i.Labels {
			labels = append(labels, label)
		}
		return (edit{Labels: &labels}).apply(request, i)
	case "close":
		return set("closed")
	case "reopen":
		return set("open")
	case "merge", "squash":
		if i.Pull == nil {
			return api.ErrNotFound
		}
		_, err := v.h.merge(v.Context(), v.repo, i, merging{head: v.PostForm.Get("head"), method: action, by: by})
		return err
	}
	return nil
}
