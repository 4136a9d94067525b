// Package runs is the page of runs, as a board or a list, and of one run.
package runs

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the pages.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/runs", Show: show},
		{Method: http.MethodPost, Path: "/w/{workspace}/runs", Do: queue, Show: show, Back: "runs"},
		{Method: http.MethodGet, Path: "/w/{workspace}/runs/{id}", Show: showOne},
		{Method: http.MethodPost, Path: "/w/{workspace}/runs/{id}/cancel", Do: cancel, Show: showOne, Back: "runs/{id}", Ask: askCancel},
	}
}

const (
	onBoard = 100 // runs that a board shows; the API has no more on a page
	perPage = 50
)

// data is what the page shows.
type data struct {
	List     client.RunList
	Repos    []client.RepoRuns
	Finished bool
	Board    bool
	Stage    string // the only stage shown on a phone; "" is all
}

func show(v *page.Visit) (page.Page, error) {
	d := data{Finished: v.Query("status") == "finished", Stage: v.Query("stage")}
	d.Board = !d.Finished && v.Query("view") != "list"
	params := &client.ListRunsParams{
		Status: client.ListRunsParamsStatusActive, Counts: new(true), Limit: client.Optional(int64(perPage)),
		Repo: client.Optional(v.Query("repo")), Q: client.Optional(v.Query("q")),
	}
	if d.Finished {
		params.Status = client.ListRunsParamsStatusTerminal
	}
	if d.Board {
		params.Limit = client.Optional(int64(onBoard))
	}
	if !d.Board {
		params.Offset = client.Optional(v.QueryNumber("offset"))
	}
	err := v.Load(func(ctx context.Context) (err error) {
		d.List, err = client.Read[client.RunList](v.API.ListRuns(ctx, params))
		return err
	}, func(ctx context.Context) error {
		list, err := client.Read[client.RepoList](v.API.ListRepos(ctx, nil))
		d.Repos = list.Items
		return err
	})
	if d.List.Counts == nil {
		d.List.Counts = &client.RunCounts{}
	}
	return page.Page{Title: "Runs", NavEntry: "runs", Main: view(v, d)}, err
}

// typed is what the form of an issue keeps of one that was refused.
type typed struct{ repo, number, title, body, refused string }

// typedOf returns what the form shows.
func typedOf(v *page.Visit) typed {
	t, _ := v.Done.(typed)
	return t
}

// queue queues an issue of a repository. A refusal is told in the form, which keeps what was typed.
func queue(v *page.Visit) (page.Notice, error) {
	sent := typed{
		repo: v.PostFormValue("repo"), number: strings.TrimSpace(v.PostFormValue("number")),
		title: strings.TrimSpace(v.PostFormValue("title")), body: strings.TrimSpace(v.PostFormValue("body")),
	}
	err := sent.queue(v)
	if r := client.AsRefused(err); r != nil {
		sent.refused = page.Sentence(r)
		v.Done = sent
		err = page.InlineError{Err: err}
	}
	return page.Notice{Text: "Issue queued. The run starts when a slot is free."}, err
}

func (t typed) queue(v *page.Visit) error {
	body := client.NewIssueBody{RepoId: t.repo, Title: client.Optional(t.title), Body: client.Optional(t.body)}
	if t.number != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(t.number, "#"), 10, 64)
		if err != nil {
			return &client.Refused{Status: http.StatusConflict, Message: "An issue number has only digits."}
		}
		body.IssueNumber = &n
	}
	return client.Done(v.API.QueueIssue(v.Context(), nil, body))
}

// sentence says how many runs there are, in words.
func (d data) sentence() string {
	var waiting, stuck int64
	for _, s := range d.List.Counts.ByStage {
		waiting, stuck = waiting+s.Waiting, stuck+s.Stuck
	}
	if d.List.Counts.Active == 0 {
		return "No runs are active."
	}
	text := kit.Count(d.List.Counts.Active, "run is", "runs are") + " active."
	if waiting > 0 {
		text += " " + kit.Count(waiting, "waits", "wait") + " for a person."
	}
	if stuck > 0 {
		text += " " + kit.Count(stuck, "is", "are") + " stuck."
	}
	return text
}

// part says which part of a list of several pages is shown.
func (d data) part() string {
	if n := int64(len(d.List.Items)); !d.Board && n > 0 && n < d.List.Total {
		return kit.Part(d.List.Offset, n, d.List.Total)
	}
	return ""
}

// onward and backward say where a page of the list leads: those that have finished are listed
// from the newest on, the others by stage.
func (d data) onward() string {
	if d.Finished {
		return "Older"
	}
	return "More runs"
}

func (d data) backward() string {
	if d.Finished {
		return "Newer"
	}
	return "Previous runs"
}

// of returns the runs of a stage.
func (d data) of(stage string) (list []client.Run) {
	for _, r := range d.List.Items {
		if string(r.StageLabel) == stage {
			list = append(list, r)
		}
	}
	return list
}

// age is how old a run is, as short as a card has room for.
func age(r client.Run, now time.Time) string {
	d := now.Sub(r.CreatedAt)
	if d >= time.Hour && d < 24*time.Hour {
		return strconv.Itoa(int(d/time.Hour)) + "h " + strconv.Itoa(int(d%time.Hour/time.Minute)) + "m"
	}
	return short(d)
}

// short is a duration in its largest unit.
func short(d time.Duration) string {
	switch {
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// waits is what a person is asked for, in a word or two.
func waits(r client.Run) string {
	if r.WaitsFor == nil {
		return ""
	}
	switch *r.WaitsFor {
	case client.RunWaitsForMergeApproval:
		return "Approve"
	case client.RunWaitsForProtectedPathAllowOnce:
		return "Allow a path"
	}
	return "Check a fact"
}

// tone is the colour of a run's state, beside its word.
func tone(r client.Run) kit.Tone {
	switch r.Status {
	case client.RunStatusMerged:
		return kit.Good
	case client.RunStatusFailed:
		return kit.Bad
	case client.RunStatusCancelled, client.RunStatusRejected, client.RunStatusQueued:
		return kit.Plain
	case client.RunStatusNeedsInput, client.RunStatusAwaitingApproval:
		return kit.Warn
	}
	return kit.Accent
}

// state is the word for a run: its stage while it moves.
func state(r client.Run) string {
	switch r.Status {
	case client.RunStatusMerged:
		return "Merged"
	case client.RunStatusFailed:
		return "Failed"
	case client.RunStatusCancelled:
		return "Cancelled"
	case client.RunStatusRejected:
		return "Rejected"
	}
	return string(r.StageLabel)
}

func active(r client.Run) bool {
	switch r.Status {
	case client.RunStatusMerged, client.RunStatusFailed, client.RunStatusCancelled, client.RunStatusRejected:
		return false
	}
	return true
}
