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

// runData is the content of the page of a run.
type runData struct {
	client.RunDetail
	Events      []client.EventRecord // a page of the history, newest first
	IsNewest    bool                 // whether it is the first page
	OlderCursor string               // the cursor of the next page; "" if there is none
	PageTurned  bool                 // whether htmx just turned to this page of the history
}

const eventsPerPage = 50

func showRun(v *page.Visit) (page.Page, error) {
	d := runData{IsNewest: v.Query("cursor") == "", PageTurned: strings.HasSuffix(v.Header.Get("HX-Target"), "#happened")}
	err := v.Load(func(ctx context.Context) (err error) {
		d.RunDetail, err = client.Decode[client.RunDetail](v.API.GetRun(ctx, v.PathValue("id"), nil))
		return err
	}, func(ctx context.Context) error {
		list, err := client.Decode[client.RunEventsBody](v.API.ListRunEvents(ctx, v.PathValue("id"), &client.ListRunEventsParams{
			Order: new(client.Desc), Limit: client.Optional(int64(eventsPerPage)), Cursor: client.Optional(v.Query("cursor")),
		}))
		if d.Events = list.Items; list.NextCursor != nil {
			d.OlderCursor = *list.NextCursor
		}
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	title := "#" + kit.Digits(d.Run.IssueNumber) + " " + kit.Title(d.Run.IssueTitle)
	return page.Page{Title: title, NavEntry: "runs", Main: runView(v, d)}, nil
}

func cancel(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.CancelRun(v.Context(), v.PathValue("id"), nil, client.CancellationBody{
		Reason: client.Optional(strings.TrimSpace(v.PostFormValue("reason"))),
	}))
	return page.Notice{Text: "Run cancelled."}, err
}

func cancelQuestion(r client.Run) page.Question {
	return page.Question{
		Title: "Cancel run #" + kit.Digits(r.IssueNumber) + "?",
		Text:  "It stops now and can't be resumed. You can queue the issue again.",
		Yes:   "Cancel run #" + kit.Digits(r.IssueNumber), No: "Keep it running",
	}
}

func askCancel(v *page.Visit) (page.Question, error) {
	d, err := client.Decode[client.RunDetail](v.API.GetRun(v.Context(), v.PathValue("id"), nil))
	return cancelQuestion(d.Run), err
}

// stageDuration returns how long a stage has taken so far; ok is false if it has not started.
func stageDuration(s client.Stage, now time.Time) (d time.Duration, ok bool) {
	if s.StartedAt == nil {
		return 0, false
	}
	if s.FinishedAt == nil {
		return max(now.Sub(*s.StartedAt), 0), true
	}
	return s.FinishedAt.Sub(*s.StartedAt), true
}

// runDuration returns how long a run has taken so far.
func runDuration(r client.Run, now time.Time) time.Duration {
	if isActive(r) {
		return max(now.Sub(r.CreatedAt), 0)
	}
	return r.UpdatedAt.Sub(r.CreatedAt)
}

// shortSHA abbreviates the hash of a commit.
func shortSHA(sha string) string { return sha[:min(7, len(sha))] }

// fileIcon returns the icon of a file's change.
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

// diffSquares returns the classes of the five squares beside a file, which show the share of
// added lines in its change.
func diffSquares(f client.FileChange) (list [5]string) {
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

// squareX returns the x coordinate of a square.
func squareX(i int) string { return strconv.Itoa(i * 9) }

// waitSentence describes what a run waits for.
func waitSentence(kind client.RunWaitsFor) string {
	switch kind {
	case client.RunWaitsForMergeApproval:
		return "This run is waiting for a merge approval."
	case client.RunWaitsForProtectedPathAllowOnce:
		return "This run changed a protected path and is waiting for an exception."
	}
	return "This run is waiting for a fact to be checked."
}

// decisionPath returns the address of the decision that a run waits for. A run has one at a time.
func decisionPath(v *page.Visit, r client.Run) string { return v.Path("needs") + "#of-" + r.Id }

// checkName returns the name of a guardrail on pages.
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

// checkNote summarizes what a guardrail found.
func (d runData) checkNote(c client.Check) string {
	switch {
	case c.Status == client.CheckStatusAllowedOnce:
		if by := d.allowedBy(); by != "" {
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

// allowedBy returns the name of who allowed the change of a protected path, "" if that is not
// among the page's events.
func (d runData) allowedBy() string {
	for _, e := range d.Events {
		if e.Kind == "decision.answered" && parseEventData(e).Action == string(client.InboxActionIdAllowOnce) {
			return actorName(e.Actor)
		}
	}
	return ""
}
