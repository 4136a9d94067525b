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
	Newest bool                 // no page comes before it
	Older  string               // the cursor that leads to the page after it, "" if there is none
	Turned bool                 // to that page, just now
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
	return page.Page{Title: title, NavEntry: "runs", Main: runView(v, o)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.CancelRun(v.Context(), v.PathValue("id"), nil, client.CancellationBody{
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}))
	return page.Notice{Text: "Run cancelled."}, err
}

func cancelQuestion(r client.Run) page.Question {
	return page.Question{
		Title: "Cancel the run for #" + kit.Digits(r.IssueNumber) + "?",
		Text:  "It stops now and can't be resumed. You can queue the issue again.",
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

// waitsFor says in a sentence what a run waits for.
func waitsFor(kind client.RunWaitsFor) string {
	switch kind {
	case client.RunWaitsForMergeApproval:
		return "This run is waiting for a merge approval."
	case client.RunWaitsForProtectedPathAllowOnce:
		return "This run changed a protected path and is waiting for an exception."
	}
	return "This run is waiting for a fact to be checked."
}

// decisionPath is the place of the decision that a run waits for: a run has one at a time.
func decisionPath(v *page.Visit, r client.Run) string { return v.Path("needs") + "#of-" + r.Id }

// checkName is what people call a guardrail.
func checkName(id string) string {
	switch id {
	case "max_files":
		return "Files"
	case "max_lines":
		return "Size"
	case "deleted_tests":
		return "Tests deleted"
	}
	return kit.Words(id)
}

// checkNote is what a guardrail found, in a few words.
func (o one) checkNote(c client.Check) string {
	switch {
	case c.Status == client.CheckStatusAllowedOnce:
		if by := o.allowedBy(); by != "" {
			first, _, _ := strings.Cut(by, " ")
			return "allowed once by " + first
		}
		return "allowed once"
	case c.Note != "" || len(c.Findings) > 0:
		return c.Note
	case c.Status == client.CheckStatusPass:
		return "nothing found"
	}
	return ""
}

// allowedBy is who allowed the change of a protected path, "" if that is not among the events of
// the page.
func (o one) allowedBy() string {
	for _, e := range o.Past {
		if e.Kind == "decision.answered" && newOccurrence(e).Action == string(client.InboxActionIdAllowOnce) {
			return who(e.Actor)
		}
	}
	return ""
}
