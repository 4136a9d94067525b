package runs

import (
	"context"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// one is what the page of a run shows.
type one struct {
	client.RunDetail
	Past   []client.EventRecord // a page of what happened, the newest first
	Newest bool              // no page comes before it
	Older  string            // the cursor that leads to the page after it, "" if there is none
	Turned bool              // to that page, just now
}

const perHistory = 50 // events of a page

func showOne(v *page.Visit) (page.Page, error) {
	o := one{Newest: v.Query("cursor") == "", Turned: strings.HasSuffix(v.Header.Get("HX-Target"), "#happened")}
	err := v.Load(func(ctx context.Context) (err error) {
		o.RunDetail, err = client.Read[client.RunDetail](v.API.GetRun(ctx, v.PathValue("id"), nil))
		return err
	}, func(ctx context.Context) error {
		list, err := client.Read[client.RunEventsBody](v.API.ListRunEvents(ctx, v.PathValue("id"), &client.ListRunEventsParams{
			Order: new(client.Desc), Limit: client.Optional(int64(perHistory)), Cursor: client.Optional(v.Query("cursor")),
		}))
		if o.Past = list.Items; list.NextCursor != nil {
			o.Older = *list.NextCursor
		}
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	title := "#" + kit.Digits(o.Run.IssueNumber) + " " + kit.Title(o.Run.IssueTitle)
	return page.Page{Title: title, Place: "runs", Main: runView(v, o)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.CancelRun(v.Context(), v.PathValue("id"), nil, client.CancellationBody{
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}))
	return page.Notice{Text: "The run is cancelled."}, err
}

func cancelQuestion(r client.Run) page.Question {
	return page.Question{
		Title: "Cancel the run of #" + kit.Digits(r.IssueNumber) + "?", Text: "It stops at once and cannot go on. The issue can be queued again.",
	}
}

func askCancel(v *page.Visit) (page.Question, error) {
	d, err := client.Read[client.RunDetail](v.API.GetRun(v.Context(), v.PathValue("id"), nil))
	return cancelQuestion(d.Run), err
}

// took is how long a stage has lasted so far.
func took(s client.Stage, now time.Time) (d time.Duration, ok bool) {
	if s.StartedAt == nil {
		return 0, false
	}
	if s.FinishedAt == nil {
		return max(now.Sub(*s.StartedAt), 0), true
	}
	return s.FinishedAt.Sub(*s.StartedAt), true
}

// lasted is how long a run has lasted so far, or did.
func lasted(r client.Run, now time.Time) time.Duration {
	if active(r) {
		return max(now.Sub(r.CreatedAt), 0)
	}
	return r.UpdatedAt.Sub(r.CreatedAt)
}

// abbreviated is a commit as people name it.
func abbreviated(sha string) string { return sha[:min(7, len(sha))] }

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// fileIcon is the sign of what became of a file.
func fileIcon(f client.FileChange) string {
	if f.Change != nil {
		switch *f.Change {
		case client.FileChangeChangeAdded:
			return "file-plus"
		case client.FileChangeChangeModified:
			return "file-pen"
		case client.FileChangeChangeRemoved:
			return "file-minus"
		}
	}
	return "file-diff"
}

// squares are the five signs beside a file: how much of its change was added.
func squares(f client.FileChange) (list [5]string) {
	total := f.Added + f.Removed
	for i := range list {
		switch {
		case total == 0:
			list[i] = "none"
		case int64(i)*total < f.Added*int64(len(list)):
			list[i] = "plus"
		default:
			list[i] = "minus"
		}
	}
	return list
}

func index(i int) string { return strconv.Itoa(i * 9) }
