package codehost

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
)

// maxLabelled is how many issues are looked at for one answer. Each takes two requests or more.
const maxLabelled = 25

// A labelling says that somebody gave an issue a label.
type labelling struct {
	event, by string
	at        time.Time
}

func (h hosted) Labelled(ctx context.Context, in client.LabelledInput) (client.LabelledResult, error) {
	result := client.LabelledResult{Issues: []client.Labelled{}}
	may := map[string]bool{}
	for page := 1; page != 0 && page <= maxPages; {
		list, next, err := h.issues(ctx, in.Label, page)
		if err != nil {
			return result, failure(ctx, err)
		}
		for _, i := range list {
			if i.pull || in.Known[i.Number].Equal(i.UpdatedAt) {
				continue
			}
			if len(result.Issues) == maxLabelled {
				return result, nil
			}
			one, err := h.whoLabelled(ctx, i.Issue, in.Label, may)
			if err != nil {
				return result, failure(ctx, err)
			}
			result.Issues = append(result.Issues, one)
		}
		page = next
	}
	return result, nil
}

// whoLabelled returns who gave an issue its label. may remembers accounts.
func (h hosted) whoLabelled(ctx context.Context, i client.Issue, label string, may map[string]bool) (client.Labelled, error) {
	one := client.Labelled{Number: i.Number, Title: i.Title, UpdatedAt: i.UpdatedAt}
	last, err := h.labelled(ctx, i.Number, label)
	if err != nil || last.event == "" || last.by == "" {
		return one, err
	}
	one.Event, one.By, one.At = last.event, last.by, last.at
	if _, known := may[last.by]; !known {
		if may[last.by], err = h.mayWrite(ctx, last.by); err != nil {
			return one, err
		}
	}
	one.MayWrite = may[last.by]
	return one, nil
}

// mayWrite reports whether the host lets an account write to the repository. That of the credential does not count: what the
// service does itself asks for nothing.
func (h hosted) mayWrite(ctx context.Context, login string) (bool, error) {
	own, err := h.account(ctx)
	if code := statusOf(err); err != nil && code != http.StatusForbidden && code != http.StatusNotFound { // of an app
		return false, err
	}
	if strings.EqualFold(own, login) {
		return false, nil
	}
	level, err := h.permission(ctx, login)
	if gone(err) {
		return false, nil
	}
	return slices.Contains([]string{"owner", "admin", "write"}, level), err
}

func (g *gitHub) labelled(ctx context.Context, number int, label string) (last labelling, err error) {
	opts := &github.ListOptions{PerPage: hostPage}
	for range maxPages {
		list, res, err := g.api.Issues.ListIssueEvents(ctx, g.owner, g.name, number, opts)
		if err != nil {
			return last, err
		}
		for _, e := range list { // the oldest first
			if e.GetEvent() == "labeled" && strings.EqualFold(e.GetLabel().GetName(), label) {
				last = labelling{strconv.FormatInt(e.GetID(), 10), e.GetActor().GetLogin(), e.GetCreatedAt().Time}
			}
		}
		if res.NextPage == 0 {
			break
		}
		opts.Page = res.NextPage
	}
	return last, nil
}

func (g *gitHub) account(ctx context.Context) (string, error) {
	u, _, err := g.api.Users.Get(ctx, "")
	return u.GetLogin(), err
}

func (g *gitHub) permission(ctx context.Context, login string) (string, error) {
	level, _, err := g.api.Repositories.GetPermissionLevel(ctx, g.owner, g.name, login)
	return level.GetPermission(), err
}

// labelled reads the timeline without the client, which takes the label for a list.
func (g *giteaForge) labelled(ctx context.Context, number int, label string) (last labelling, err error) {
	for page := 1; page <= maxPages; page++ {
		list, err := g.timeline(ctx, number, page)
		if err != nil || len(list) == 0 {
			return last, err
		}
		for _, e := range list { // the oldest first; the text says whether the label was given
			if e.Type == "label" && e.Body != "" && e.Label.Name == label {
				last = labelling{strconv.FormatInt(e.ID, 10), e.User.Login, e.CreatedAt}
			}
		}
	}
	return last, nil
}

// A giteaEvent is an entry of a timeline.
type giteaEvent struct {
	ID         int64
	Type, Body string
	User       struct{ Login string }
	Label      struct{ Name string }
	CreatedAt  time.Time `json:"created_at"`
}

func (g *giteaForge) timeline(ctx context.Context, number, page int) (list []giteaEvent, err error) {
	at := g.base.JoinPath("repos", g.owner, g.name, "issues", strconv.Itoa(number), "timeline")
	at.RawQuery = "limit=" + strconv.Itoa(hostPage) + "&page=" + strconv.Itoa(page)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := g.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return list, json.NewDecoder(res.Body).Decode(&list)
}

func (g *giteaForge) account(ctx context.Context) (string, error) {
	u, _, err := g.in(ctx).GetMyUserInfo()
	return login(u), err
}

func (g *giteaForge) permission(ctx context.Context, login string) (string, error) {
	level, _, err := g.in(ctx).CollaboratorPermission(g.owner, g.name, login)
	if err != nil || level == nil {
		return "", err
	}
	return string(level.Permission), nil
}
