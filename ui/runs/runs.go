// Package runs contains the page of runs, as a board or a list, and the page of one run.
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

// maxQueueForm is the maximal size in bytes of a form with an issue's text of 20,000 UTF-16 code units, as the form
// counts them. Form encoding turns one into nine bytes at most.
const maxQueueForm = 256 << 10

// Routes returns the routes of the pages.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/runs", Show: show},
		{Method: http.MethodPost, Path: "/w/{workspace}/runs", Do: queue, Show: show, Back: "runs", Body: maxQueueForm},
		{Method: http.MethodGet, Path: "/w/{workspace}/runs/{id}", Show: showRun},
		{Method: http.MethodPost, Path: "/w/{workspace}/runs/{id}/cancel", Do: cancel, Show: showRun, Back: "runs/{id}", Ask: askCancel},
		{Method: http.MethodPost, Path: "/w/{workspace}/runs/{id}/retry", Do: retry, Show: showRun, Back: "runs/{id}"},
	}
}

const (
	maxOnBoard = 100 // runs; the API's maximum
	perPage    = 50
)

// listData is the content of the page of runs.
type listData struct {
	List     client.RunList
	Repos    []client.RepoRuns
	Finished bool
	Board    bool
	Stage    string // the stage shown on a phone; "" for all
}

func show(v *page.Visit) (page.Page, error) {
	d := listData{Finished: v.Query("status") == "finished", Stage: v.Query("stage")}
	d.Board = !d.Finished && v.Query("view") != "list"
	params := &client.ListRunsParams{
		Status: client.ListRunsParamsStatusActive, Counts: new(true), Limit: client.Optional(int64(perPage)),
		Repo: client.Optional(v.Query("repo")), Q: client.Optional(v.Query("q")),
	}
	if d.Finished {
		params.Status = client.ListRunsParamsStatusTerminal
	}
	if d.Board {
		params.Limit = client.Optional(int64(maxOnBoard))
	}
	if !d.Board {
		params.Offset = client.Optional(v.QueryNumber("offset"))
	}
	err := v.Load(func(ctx context.Context) (err error) {
		d.List, err = client.Decode[client.RunList](v.API.ListRuns(ctx, params))
		return err
	}, func(ctx context.Context) error {
		list, err := client.Decode[client.RepoList](v.API.ListRepos(ctx, nil))
		d.Repos = list.Items
		return err
	})
	if d.List.Counts == nil {
		d.List.Counts = &client.RunCounts{}
	}
	return page.Page{Title: "Runs", NavEntry: "runs", Main: view(v, d)}, err
}

// queueForm is the content of the form that queues an issue, with the reasons of a refusal.
type queueForm struct {
	repo, number, title, body string
	refused                   string            // the reason, "" if a field has it, or there is none
	fields                    map[string]string // what is wrong, by field
}

func (f queueForm) isRefused() bool { return f.refused != "" || len(f.fields) > 0 }

// A queuedRun is the id of the run that the request has queued. The page brings it into view.
type queuedRun string

// queueFormOf returns the refused form to show again, or an empty one.
func queueFormOf(v *page.Visit) queueForm {
	f, _ := v.Result.(queueForm)
	return f
}

// queue queues an issue of a repository. A refusal is shown in the form, which keeps its values.
func queue(v *page.Visit) (page.Notice, error) {
	form := queueForm{
		repo: v.PostFormValue("repo"), number: strings.TrimSpace(v.PostFormValue("number")),
		title: strings.TrimSpace(v.PostFormValue("title")), body: strings.TrimSpace(v.PostFormValue("body")),
	}
	run, err := form.submit(v)
	if r := client.AsRefused(err); r != nil {
		form.fields = r.FieldErrors("repoId", "issueNumber", "title", "body")
		if len(form.fields) == 0 {
			form.refused = page.Sentence(r)
		}
		v.Result = form
		return page.Notice{}, page.InlineError{Err: err}
	}
	v.Result = queuedRun(run.Id)
	return page.Notice{Text: "Issue queued.", Href: v.Path("runs", run.Id), Label: "Open its run"}, err
}

func (f queueForm) submit(v *page.Visit) (client.Run, error) {
	body := client.NewIssueBody{RepoId: f.repo, Title: client.Optional(f.title), Body: client.Optional(f.body)}
	if f.number != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(f.number, "#"), 10, 64)
		if err != nil {
			return client.Run{}, client.RefusedField("issueNumber", "An issue number has only digits.")
		}
		body.IssueNumber = &n
	}
	return client.Decode[client.Run](v.API.QueueIssue(v.Context(), &client.QueueIssueParams{IdempotencyKey: v.IdempotencyKey()}, body))
}

// repoLabel returns the name of a repository, told apart from that of a connected one of the same name.
func (d listData) repoLabel(r client.RepoRuns) string {
	if r.Status != client.RepoRunsStatusUnconnected && r.Status != client.RepoRunsStatusDisconnected {
		return r.Name
	}
	for _, other := range d.Repos {
		if other.Name == r.Name && other.Id != r.Id {
			return r.Name + " (not connected)"
		}
	}
	return r.Name
}

// summary describes how many runs are active, waiting and stuck.
func (d listData) summary() string {
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

// pageRange describes the shown part of a list of several pages, "" for a single page.
func (d listData) pageRange() string {
	if n := int64(len(d.List.Items)); !d.Board && n > 0 && n < d.List.Total {
		return kit.Part(d.List.Offset, n, d.List.Total)
	}
	return ""
}

// nextLabel and previousLabel return the labels of links between pages: finished runs are
// listed newest first, others by stage.
func (d listData) nextLabel() string {
	if d.Finished {
		return "Older"
	}
	return "More runs"
}

func (d listData) previousLabel() string {
	if d.Finished {
		return "Newer"
	}
	return "Previous runs"
}

// runsIn returns the runs of a stage.
func (d listData) runsIn(stage string) (list []client.Run) {
	for _, r := range d.List.Items {
		if string(r.StageLabel) == stage {
			list = append(list, r)
		}
	}
	return list
}

// shownCount returns how many runs a part of the board has: all of them, or with a search, which
// the service's counts leave out, those that it found.
func shownCount(v *page.Visit, found []client.Run, all int64) int64 {
	if v.Query("q") != "" {
		return int64(len(found))
	}
	return all
}

// age formats the age of a run for a card: "3h 12m".
func age(r client.Run, now time.Time) string {
	d := now.Sub(r.CreatedAt)
	if d >= time.Hour && d < 24*time.Hour {
		return strconv.Itoa(int(d/time.Hour)) + "h " + strconv.Itoa(int(d%time.Hour/time.Minute)) + "m"
	}
	return shortDuration(d)
}

// shortDuration formats a duration in its largest unit: "3h".
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 24*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// waitLabel names what a run asks a person to do, "" if it does not wait.
func waitLabel(r client.Run) string {
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

// statusText names the status of a run: its stage while it is active.
func statusText(r client.Run) string {
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

func isActive(r client.Run) bool {
	switch r.Status {
	case client.RunStatusMerged, client.RunStatusFailed, client.RunStatusCancelled, client.RunStatusRejected:
		return false
	}
	return true
}
